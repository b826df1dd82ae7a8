/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an owner lets requesters do: rules, each for one requester or all, one device or all, some
 * operations and a range of bytes. What no rule allows is denied. The first rule that covers the
 * whole of a transaction allows it, and is named in the audit. Whose memory a requester may name
 * besides its own is said by shares; what no share allows is denied (MEM-13). The same of those who
 * may watch the cluster.
 */
#pragma once

#include <weft/reason.h>

#include "wire/rio_msg.h"
#include "wire/sgl.h"

enum { RIO_POLICY_RULES_MAX = 1024, RIO_POLICY_SHARES_MAX = 256, RIO_POLICY_WATCHERS_MAX = 256 };

struct rio_rule {
	struct platform requester;	   /* unit 0: whoever it is; process 0: any of that unit */
	struct platform iounit;		   /* whose device; unit 0: whoever's */
	uint8_t name[RIO_DEVICE_NAME_MAX]; /* the device's */
	uint32_t name_bytes;		   /* 0: whatever its name is */
	uint32_t operations;		   /* 1 << enum sgl_operation for each */
	uint64_t first, length;		   /* bytes of the device; length 0: to its end */
};

/* This requester may name memory of that platform in its lists. */
struct rio_share {
	struct platform requester; /* unit 0: whoever it is; process 0: any of that unit */
	struct platform platform;  /* process 0: any of that unit */
};

struct rio_policy {
	struct rio_rule rules[RIO_POLICY_RULES_MAX];
	uint32_t count;
	struct rio_share shares[RIO_POLICY_SHARES_MAX];
	uint32_t share_count;
	struct platform watchers[RIO_POLICY_WATCHERS_MAX]; /* as the requester of a rule */
	uint32_t watcher_count;
};

/*
 * WEFT_R_LIMIT: there are too many. WEFT_R_BAD_ARGUMENT: it names no operation, or one that does
 * not exist, or a range past the end of all devices.
 */
enum weft_reason rio_policy_add(struct rio_policy *p, const struct rio_rule *rule);

/* WEFT_R_LIMIT: there are too many. WEFT_R_BAD_ARGUMENT: it is of nobody's memory. */
enum weft_reason rio_policy_add_share(struct rio_policy *p, const struct rio_share *share);

/* This requester may see how the cluster stands. WEFT_R_LIMIT: there are too many. */
enum weft_reason rio_policy_add_watcher(struct rio_policy *p, struct platform requester);

/* A device, as rules know it. */
struct rio_target {
	uint32_t number; /* the owner's, which rules do not know */
	struct platform iounit;
	struct rio_bytes name;
};

/* What is asked for. A flush has no range, and needs a rule for any part of the device. */
struct rio_wish {
	struct platform requester;
	struct rio_target device;
	enum sgl_operation operation;
	uint64_t offset, length;
};

/* WEFT_OK, with the rule that says so, counted from 0; or WEFT_R_RIO_DENIED. */
enum weft_reason rio_policy_judge(const struct rio_policy *p, const struct rio_wish *w,
				  uint32_t *rule);

/* May the requester name memory of that platform? Its own it may. */
bool rio_policy_may_name(const struct rio_policy *p, struct platform requester,
			 struct platform platform);

bool rio_policy_may_watch(const struct rio_policy *p, struct platform requester);

/* Is there anything that the requester may do with any part of the device? */
bool rio_policy_may_touch(const struct rio_policy *p, struct platform requester,
			  const struct rio_target *device);

/* May data of the device go to that platform's memory, or come from there, for whoever asks? */
bool rio_policy_may_meet(const struct rio_policy *p, struct platform platform,
			 const struct rio_target *device);
