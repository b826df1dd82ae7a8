/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of devices and ports. */
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct device;

/* Fills a struct whose size the program gives: shorter if older, zero-filled beyond if newer. */
void fill(void *to, size_t bytes, const void *from, size_t known);

/* enum ibv_device_cap_flags. */
unsigned int device_capabilities(const struct device *d);

/* The present attributes of a device's port. 0 or errno: EINVAL: there is no such port. */
int port_tell(const struct device *d, uint32_t port, struct ibv_port_attr *attr);
enum ibv_mtu port_mtu(const struct ibv_context *context, uint32_t port);

/* Functions in the table of a context. */
int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
	       size_t attr_bytes);
int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t attr_bytes);
