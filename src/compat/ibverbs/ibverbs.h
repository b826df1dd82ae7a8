/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What librdmacm takes from our libibverbs beyond the verbs themselves: both translate for one
 * engine. Exported under a version of its own, which programs do not see.
 */
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <weft/weft.h>

/*
 * Who is told of an object's events. Called with the engine locked: it may take locks of its own
 * that are never held while weft or a verb is called, and must not call either.
 */
struct weftv_sink {
	void (*take)(struct weftv_sink *sink, const struct weft_event *event);
};

/* The adapter behind every device of this process. It lives from the first open context on. */
struct weft_adapter *weftv_adapter(void);

/*
 * The context that all of librdmacm shares, of the RoCE or the iWARP device that has the address:
 * opened when first asked for, never closed. NULL and errno: ENODEV if there is none.
 */
struct ibv_context *weftv_context_at(const struct sockaddr *address, bool is_roce);

/*
 * The shared contexts of all devices that can be opened, those of RoCE first, ended by NULL; to be
 * freed. NULL and errno, which is also set if there is none in it.
 */
struct ibv_context **weftv_contexts(int *count);

/* Whether the context is of a RoCE device. */
bool weftv_is_roce(const struct ibv_context *context);

/*
 * The queue pair itself, and who is told when it gets connected, fails to, or comes to its end; the
 * last time as a WEFT_EVENT_QP_ERROR, when it is destroyed.
 */
struct weft_qp *weftv_qp(struct ibv_qp *qp);
void weftv_qp_set_sink(struct ibv_qp *qp, struct weftv_sink *sink);

/* The queue pair of that number, of the context or, if that is NULL, of any; or NULL. */
struct ibv_qp *weftv_qp_find(struct ibv_context *context, uint32_t number);

/* 0, or what errno says of a refusal. */
int weftv_errno(enum weft_reason reason);

/*
 * What is at a path under /sys/class/infiniband or /dev/infiniband, where a device of the kernel
 * would have it: the text of a file, where a link leads to, or what is in a folder, one name a
 * line; the mode says what it is. How long it is, or -errno: -ENOENT: nothing of ours.
 */
int weftv_sysfs(const char *path, char *text, size_t size, unsigned int *mode);
