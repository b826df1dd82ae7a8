/* SPDX-License-Identifier: BSD-2-Clause */
/* nbdkit serves a directed device, or a line of docs/store.md: docs/nbd.md, nbdkit-plugin(3). */
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/quantity.h"
#include "compat/nbdkit/directed.h"
#include "compat/nbdkit/help.h"
#include "compat/nbdkit/plain.h"
#include "roles/rio_role_file.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

enum { PREFERRED_BYTES = 4096, REQUEST_BYTES_MAX = 64 << 20, NS_PER_S = 1000000000 };

/* Written before there are threads. */
static char *config_path, *device_name;
static uint64_t wait_ns = UINT64_C(10) * NS_PER_S;
static struct rio_role_file role_file;
static struct directed *directed; /* NULL: not connected */
static struct plain *plain;	  /* of a device without a configuration; NULL: not open */
static int home_fd = -1;	  /* the folder that its paths begin in */

/* A connection of a client. */
struct handle {
	struct store_shape shape;
	struct directed_user user; /* of a directed device */
};

/* ---- Errors --------------------------------------------------------------------------------- */

/* NBD has few errors, and nbdkit says EINVAL for all others. */
static int error_of(enum weft_reason reason)
{
	int error = weft_reason_errno(reason);

	switch (error) {
	case EACCES:
	case EPERM:
		return EPERM;
	case EROFS:
	case EINVAL:
	case ENOMEM:
	case ENOSPC:
	case EOPNOTSUPP:
		return error;
	case ERANGE:
		return EINVAL;
	default:
		return EIO;
	}
}

static int fail(const char *what, enum weft_reason reason, const char *text)
{
	/* A URL may hold a password. */
	nbdkit_error("%s %s: %s (%s)", what, config_path ? device_name : "the device",
		     text && text[0] ? text : weft_reason_text(reason), weft_reason_name(reason));
	nbdkit_set_error(error_of(reason));
	return -1;
}

/* ---- Parameters ----------------------------------------------------------------------------- */

static int take_wait(const char *value)
{
	if (quantity_time((struct word){ value, (uint32_t)strlen(value) }, &wait_ns))
		return 0;
	nbdkit_error("wait=%s: a time is a whole number with ns, us, ms or s: 10s", value);
	return -1;
}

static int config(const char *key, const char *value)
{
	char **to = strcmp(key, "config") == 0 ? &config_path : &device_name;

	if (strcmp(key, "wait") == 0)
		return take_wait(value);
	if (strcmp(key, "config") != 0 && strcmp(key, "device") != 0) {
		nbdkit_error("no parameter \"%s\"; there are config, device and wait", key);
		return -1;
	}
	free(*to);
	*to = strdup(value);
	return *to ? 0 : -1;
}

static int config_complete(void)
{
	if (device_name && device_name[0])
		return 0;
	nbdkit_error(
		"device= is needed: with config=FILE the name of a directed device, without it a "
		"device as in docs/store.md, such as iscsi://HOST/TARGET/LUN");
	return -1;
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

static int connect_device(void)
{
	const struct rio_config *c = role_file.host->config;
	const struct directed_config with = { .self = &role_file.self,
					      .requests_max = c->requests_max,
					      .timeout_ns = c->timeout_ns,
					      .wait_ns = wait_ns,
					      .name = device_name };
	enum weft_reason r = directed_open(&with, &directed);

	return r == WEFT_OK ? 0 : fail("cannot use", r, NULL);
}

static int open_plain(void)
{
	struct device_refusal why;
	enum weft_reason r = plain_open(device_name, &plain, &why);

	return r == WEFT_OK ? 0 : fail("cannot use", r, why.text);
}

/* As above; and paths count from the folder that nbdkit was started in, which it leaves. */
static int get_plain_ready(void)
{
	if (open_plain() < 0)
		return -1;
	plain_close(plain);
	plain = NULL;
	home_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		nbdkit_error("the present folder: %m");
	return home_fd < 0 ? -1 : 0;
}

static int open_plain_at_home(void)
{
	int here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), status = -1;

	if (here < 0 || fchdir(home_fd) < 0) {
		nbdkit_error("the folder that nbdkit was started in: %m");
	} else {
		status = open_plain();
		if (fchdir(here) < 0) {
			nbdkit_error("the present folder: %m");
			status = -1;
		}
	}
	if (here >= 0)
		close(here);
	close(home_fd);
	return status;
}

/*
 * The terminal that started nbdkit still sees errors: so the device is tried here. But threads do
 * not survive the fork that follows, so all is closed again. The files are read only now, while
 * nbdkit is still in its working directory, and the user who may read them.
 */
static int get_ready(void)
{
	char why[RIO_HOST_WHY] = "";

	if (!config_path)
		return get_plain_ready();
	if (!rio_role_file_open(&role_file, RIO_REQUESTER, config_path, wait_ns, why)) {
		nbdkit_error("%s", why);
		return -1;
	}
	if (connect_device() < 0) {
		rio_role_file_close(&role_file);
		return -1;
	}
	directed_close(directed);
	directed = NULL;
	return 0;
}

/* The secret is needed no more. */
static int after_fork(void)
{
	int status;

	if (!config_path)
		return open_plain_at_home();
	status = connect_device();
	rio_role_file_close(&role_file);
	return status;
}

static void cleanup(void)
{
	if (directed)
		directed_close(directed);
	directed = NULL;
	if (plain)
		plain_close(plain);
	plain = NULL;
}

static void unload(void)
{
	free(config_path);
	free(device_name);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static struct store_shape shape_of(const struct weft_rio_device *d)
{
	return (struct store_shape){
		.size_bytes = d->size_bytes,
		.block_bytes = d->block_bytes,
		.can = (d->can_flush ? STORE_CAN_FLUSH : 0U) | (d->can_fua ? STORE_CAN_FUA : 0U) |
		       (d->can_discard ? STORE_CAN_DISCARD : 0U) |
		       (d->can_write_zeroes ? STORE_CAN_WRITE_ZEROES : 0U),
		.is_readonly = d->is_readonly,
	};
}

static void *open_handle(int readonly)
{
	struct handle *h = calloc(1, sizeof(*h));
	enum weft_reason r = h ? WEFT_OK : WEFT_R_NO_MEMORY;

	(void)readonly; /* nbdkit sees to it */
	if (h && plain) {
		h->shape = *plain_shape(plain);
	} else if (h) {
		r = directed_user_init(directed, &h->user);
		h->shape = shape_of(&h->user.device);
	}
	if (r == WEFT_OK)
		return h;
	free(h);
	fail("cannot use", r, NULL);
	return NULL;
}

static void close_handle(void *handle)
{
	free(handle);
}

static const struct store_shape *shape(void *handle)
{
	return &((struct handle *)handle)->shape;
}

static bool can(void *handle, enum store_abilities what)
{
	return shape(handle)->can & what;
}

static int64_t get_size(void *handle)
{
	return (int64_t)shape(handle)->size_bytes;
}

static int block_size(void *handle, uint32_t *minimum, uint32_t *preferred, uint32_t *maximum)
{
	*minimum = shape(handle)->block_bytes;
	*preferred = PREFERRED_BYTES;
	*maximum = REQUEST_BYTES_MAX;
	return 0;
}

static int can_write(void *handle)
{
	return !shape(handle)->is_readonly;
}

static int can_flush(void *handle)
{
	return can(handle, STORE_CAN_FLUSH);
}

static int can_fua(void *handle)
{
	/* Not by flush(): a client must hear of lost writes when it flushes itself. */
	return can(handle, STORE_CAN_FUA) || can(handle, STORE_CAN_FLUSH) ? NBDKIT_FUA_NATIVE
									  : NBDKIT_FUA_NONE;
}

static int can_trim(void *handle)
{
	return can(handle, STORE_CAN_DISCARD);
}

/* If it cannot, nbdkit writes zeroes. */
static int can_zero(void *handle)
{
	return can(handle, STORE_CAN_WRITE_ZEROES);
}

/*
 * Zeroes that the I/O unit makes do not travel, so they are never slower than a write of the same
 * length. If the device cannot make them nbdkit refuses fast zeroes, as it should.
 */
static int can_fast_zero(void *handle)
{
	(void)handle;
	return 1;
}

/*
 * All connections of this nbdkit, and of any other, use one device of one I/O unit: what was
 * written by one is seen by all when it is done, and a flush makes durable what any of them wrote.
 */
static int can_multi_conn(void *handle)
{
	(void)handle;
	return 1;
}

/* ---- Requests ------------------------------------------------------------------------------- */

static enum store_op op_of(enum weft_rio_operation operation)
{
	switch (operation) {
	case WEFT_RIO_READ:
		return STORE_READ;
	case WEFT_RIO_WRITE:
		return STORE_WRITE;
	case WEFT_RIO_WRITE_ZEROES:
		return STORE_WRITE_ZEROES;
	case WEFT_RIO_DISCARD:
		return STORE_DISCARD;
	default:
		return STORE_FLUSH;
	}
}

/* A discard is not made durable by itself, nor anything without FUA: a flush follows. */
static enum weft_reason do_plain(void *handle, const struct directed_request *q)
{
	const struct span memory = { q->memory, q->length };
	const bool has_fua = can(handle, STORE_CAN_FUA) && q->operation != WEFT_RIO_DISCARD;
	const struct store_request r = { .op = op_of(q->operation),
					 .flags = q->is_fua && has_fua ? STORE_FUA : 0,
					 .offset = q->offset,
					 .length = q->length,
					 .spans = &memory,
					 .span_count = q->memory ? 1 : 0 };
	enum weft_reason reason = plain_do(plain, &r);

	if (reason == WEFT_OK && q->is_fua && !has_fua)
		reason = plain_do(plain, &(struct store_request){ .op = STORE_FLUSH });
	return reason;
}

static int do_request(void *handle, const char *what, const struct directed_request *q)
{
	struct weft_rio_result ended = { 0 };
	enum weft_reason r = plain ? do_plain(handle, q)
				   : directed_do(directed, &((struct handle *)handle)->user, q,
						 &ended);

	return r == WEFT_OK ? 0 : fail(what, r, ended.text);
}

static int read_blocks(void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
	(void)flags;
	return do_request(handle, "cannot read",
			  &(struct directed_request){ .operation = WEFT_RIO_READ,
						      .memory = buf,
						      .offset = offset,
						      .length = count });
}

static int write_blocks(void *handle, const void *buf, uint32_t count, uint64_t offset,
			uint32_t flags)
{
	/* The memory is only read: by the I/O unit, through a window that lets it do no more. */
	return do_request(handle, "cannot write",
			  &(struct directed_request){ .operation = WEFT_RIO_WRITE,
						      .is_fua = flags & NBDKIT_FLAG_FUA,
						      .memory = (void *)(uintptr_t)buf,
						      .offset = offset,
						      .length = count });
}

static int zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	/* NBDKIT_FLAG_MAY_TRIM is no help: what is discarded need not read as zeroes. */
	return do_request(handle, "cannot zero",
			  &(struct directed_request){ .operation = WEFT_RIO_WRITE_ZEROES,
						      .is_fua = flags & NBDKIT_FLAG_FUA,
						      .offset = offset,
						      .length = count });
}

static int trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	return do_request(handle, "cannot discard",
			  &(struct directed_request){ .operation = WEFT_RIO_DISCARD,
						      .is_fua = flags & NBDKIT_FLAG_FUA,
						      .offset = offset,
						      .length = count });
}

static int flush(void *handle, uint32_t flags)
{
	(void)flags;
	return do_request(handle, "cannot flush",
			  &(struct directed_request){ .operation = WEFT_RIO_FLUSH });
}

static struct nbdkit_plugin plugin = {
	.name = "weft",
	.longname = "weft block devices",
	.version = WEFT_VERSION,
	.description = plugin_description,
	.config = config,
	.config_complete = config_complete,
	.config_help = plugin_parameters,
	.get_ready = get_ready,
	.after_fork = after_fork,
	.cleanup = cleanup,
	.unload = unload,
	.open = open_handle,
	.close = close_handle,
	.get_size = get_size,
	.block_size = block_size,
	.can_write = can_write,
	.can_flush = can_flush,
	.can_fua = can_fua,
	.can_trim = can_trim,
	.can_zero = can_zero,
	.can_fast_zero = can_fast_zero,
	.can_multi_conn = can_multi_conn,
	.pread = read_blocks,
	.pwrite = write_blocks,
	.zero = zero,
	.trim = trim,
	.flush = flush,
};

struct nbdkit_plugin *plugin_init(void);

NBDKIT_REGISTER_PLUGIN(plugin)
