/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What our librdmacm uses of our libibverbs beyond the verbs: both translate for one engine.
 * Exported under a symbol version of its own, which programs do not see.
 */
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <weft/weft.h>

/*
 * The receiver of an object's events. take() is called with the engine locked: it must not call
 * weft or a verb, and may take only locks that are never held while weft or a verb is called.
 */
struct weftv_sink {
	void (*take)(struct weftv_sink *sink, const struct weft_event *event);
};

/* The adapter behind every device of this process. It exists from the first open context on. */
struct weft_adapter *weftv_adapter(void);

/*
 * The context that all ids of librdmacm share, of the RoCE or iWARP device that has the address:
 * opened at first use, never closed. NULL and errno: ENODEV if no device has the address.
 */
struct ibv_context *weftv_context_at(const struct sockaddr *address, bool is_roce);

/*
 * The shared contexts of all devices that can be opened, RoCE first, terminated by NULL; the caller
 * frees the list. On failure NULL and errno; errno is also set if the list is empty.
 */
struct ibv_context **weftv_contexts(int *count);

/* Whether the context is of a RoCE device. */
bool weftv_is_ib(const struct ibv_context *context);

/*
 * The engine's queue pair; and sets the receiver of its connection events: connected, failed,
 * ended. The last event is a WEFT_EVENT_QP_ERROR when the queue pair is destroyed.
 */
struct weft_qp *weftv_qp(struct ibv_qp *qp);
void weftv_qp_set_sink(struct ibv_qp *qp, struct weftv_sink *sink);

/* The queue pair of that number, of the context or, if that is NULL, of any; or NULL. */
struct ibv_qp *weftv_qp_find(struct ibv_context *context, uint32_t number);

/* 0, or the errno for a reason. */
int weftv_errno(enum weft_reason reason);

/* The node of a fabric that this program runs on; NULL: none. */
const char *weftv_node(void);

/*
 * What is known of a port of a node, by its name, "#NUMBER", or "0xGUID" of the port; port 0: the
 * first that has a cable, or that of the GUID.
 */
struct fabric_msg_port;
enum weft_reason weftv_fabric_port(const char *node, uint32_t port, struct fabric_msg_port *p);

/* What driver/sys/fabric_address.h says of addresses there. */
struct weft_path;
enum weft_reason weftv_fabric_look(const struct weft_address *a, struct fabric_msg_port *p);
enum weft_reason weftv_fabric_own(const struct weft_address *a, struct weft_address *gid);
enum weft_reason weftv_fabric_path(const struct weft_address *from, const struct weft_address *to,
				   struct weft_path *path);

/*
 * A descriptor for what a path below /dev/infiniband names, of the node of a fabric that this
 * program runs on; or -errno: -ENOENT: nothing of ours.
 */
int weftv_device_open(const char *path);

/*
 * The content of a path under /sys/class/infiniband or /dev/infiniband, as a kernel device would
 * have it: the text of a file, the target of a link, or the names in a directory, one a line; the
 * mode tells which. Returns the length, or -errno: -ENOENT: not a path of our devices.
 */
int weftv_sysfs(const char *path, char *text, size_t size, unsigned int *mode);
