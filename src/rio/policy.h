/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an owner allows. A rule covers one requester or all, one device or all, some operations and
 * a range of bytes. The first rule that covers a whole transaction allows it, and the audit log
 * names that rule. Shares say whose memory a requester may name besides its own (MEM-13); watchers
 * may read reports on the cluster. Whatever no rule, share or watcher entry allows is denied.
 */
#pragma once

#include <weft/reason.h>

#include "wire/rio_msg.h"
#include "wire/sgl.h"

enum { RIO_POLICY_RULES_MAX = 1024, RIO_POLICY_SHARES_MAX = 256, RIO_POLICY_WATCHERS_MAX = 256 };

struct rio_rule {
	struct platform requester;	   /* unit 0: any requester; process 0: any of that unit */
	struct platform iounit;		   /* the device's I/O unit; unit 0: any */
	uint8_t name[RIO_DEVICE_NAME_MAX]; /* the device's name */
	uint32_t name_bytes;		   /* 0: any name */
	uint32_t operations;		   /* 1 << enum sgl_operation for each */
	uint64_t first, length;		   /* byte range of the device; length 0: to its end */
};

/* The requester may name memory of the platform in its lists. */
struct rio_share {
	struct platform requester; /* unit 0: any requester; process 0: any of that unit */
	struct platform platform;  /* process 0: any of that unit */
};

struct rio_policy {
	struct rio_rule rules[RIO_POLICY_RULES_MAX];
	uint32_t count;
	struct rio_share shares[RIO_POLICY_SHARES_MAX];
	uint32_t share_count;
	struct platform watchers[RIO_POLICY_WATCHERS_MAX]; /* patterns, as in rules */
	uint32_t watcher_count;
};

/*
 * WEFT_R_LIMIT: the table is full. WEFT_R_BAD_ARGUMENT: the rule names no operation or an unknown
 * one, or its range overflows 64 bits.
 */
enum weft_reason rio_policy_add(struct rio_policy *p, const struct rio_rule *rule);

/* WEFT_R_LIMIT: the table is full. WEFT_R_BAD_ARGUMENT: the share names no platform (unit 0). */
enum weft_reason rio_policy_add_share(struct rio_policy *p, const struct rio_share *share);

/* The requester may read reports on the cluster. WEFT_R_LIMIT: the table is full. */
enum weft_reason rio_policy_add_watcher(struct rio_policy *p, struct platform requester);

/* A device as rules identify it. */
struct rio_target {
	uint32_t number; /* the owner's device number; rules ignore it */
	struct platform iounit;
	struct rio_bytes name;
};

/* One operation to be judged. A flush has no range: a rule for any part of the device allows it. */
struct rio_wish {
	struct platform requester;
	struct rio_target device;
	enum sgl_operation operation;
	uint64_t offset, length;
};

/* WEFT_OK and the index of the rule that allows it, from 0; or WEFT_R_RIO_DENIED. */
enum weft_reason rio_policy_judge(const struct rio_policy *p, const struct rio_wish *w,
				  uint32_t *rule);

/* May the requester name memory of the platform? Always true of its own. */
bool rio_policy_may_name(const struct rio_policy *p, struct platform requester,
			 struct platform platform);

bool rio_policy_may_watch(const struct rio_policy *p, struct platform requester);

/* Does any rule allow the requester anything on any part of the device? */
bool rio_policy_may_touch(const struct rio_policy *p, struct platform requester,
			  const struct rio_target *device);

/* May data move between the device and the platform's memory on behalf of any requester? */
bool rio_policy_may_meet(const struct rio_policy *p, struct platform platform,
			 const struct rio_target *device);
