/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/device.h"

static enum store_op store_op_of(enum sgl_operation operation)
{
	static const enum store_op ops[SGL_OPERATION_COUNT] = {
		[SGL_READ] = STORE_READ,       [SGL_WRITE] = STORE_WRITE,
		[SGL_FLUSH] = STORE_FLUSH,     [SGL_WRITE_ZEROES] = STORE_WRITE_ZEROES,
		[SGL_DISCARD] = STORE_DISCARD,
	};

	return ops[operation];
}

struct store_request rio_store_request(const struct sgl_transaction *t, const struct span *bytes)
{
	bool has_memory = t->operation == SGL_READ || t->operation == SGL_WRITE;

	return (struct store_request){
		.op = store_op_of(t->operation),
		.flags = t->is_fua ? STORE_FUA : 0,
		.offset = t->offset,
		.length = t->length,
		.spans = has_memory ? bytes : NULL,
		.span_count = has_memory ? 1 : 0,
	};
}

static uint32_t abilities_of(uint32_t flags)
{
	return (flags & RIO_DEVICE_FLUSH ? STORE_CAN_FLUSH : 0U) |
	       (flags & RIO_DEVICE_FUA ? STORE_CAN_FUA : 0U) |
	       (flags & RIO_DEVICE_DISCARD ? STORE_CAN_DISCARD : 0U) |
	       (flags & RIO_DEVICE_ZEROES ? STORE_CAN_WRITE_ZEROES : 0U);
}

enum weft_reason rio_device_check(const struct rio_device *d, const struct sgl_transaction *t)
{
	const struct store_shape shape = {
		.size_bytes = d->size_bytes,
		.block_bytes = d->block_bytes,
		.can = abilities_of(d->flags),
		.is_readonly = d->flags & RIO_DEVICE_READ_ONLY,
	};
	const struct span bytes = { .length = t->length };
	const struct store_request r = rio_store_request(t, &bytes);

	return store_request_check(&shape, &r);
}
