/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaces etcd.c in builds without libcurl or jansson. */
#include <stdio.h>

#include "roles/etcd.h"

static bool refuse(char why[ETCD_WHY])
{
	snprintf(why, ETCD_WHY,
		 "this weft was built without libcurl and jansson, which etcd needs; "
		 "write addresses into the file instead");
	return false;
}

bool etcd_open(const struct etcd_config *config, struct etcd **etcd, char why[ETCD_WHY])
{
	(void)config;
	(void)etcd;
	return refuse(why);
}

void etcd_close(struct etcd *e)
{
	(void)e;
}

bool etcd_find(struct etcd *e, const struct platform *who, uint32_t count,
	       struct weft_address *addresses, char why[ETCD_WHY])
{
	(void)e;
	(void)who;
	(void)count;
	(void)addresses;
	return refuse(why);
}

bool etcd_grant(struct etcd *e, uint32_t seconds, int64_t *lease, char why[ETCD_WHY])
{
	(void)e;
	(void)seconds;
	(void)lease;
	return refuse(why);
}

bool etcd_keep(struct etcd *e, int64_t lease, char why[ETCD_WHY])
{
	(void)e;
	(void)lease;
	return refuse(why);
}

bool etcd_revoke(struct etcd *e, int64_t lease, char why[ETCD_WHY])
{
	(void)e;
	(void)lease;
	return refuse(why);
}

bool etcd_put(struct etcd *e, struct platform who, const struct weft_address *address,
	      int64_t lease, char why[ETCD_WHY])
{
	(void)e;
	(void)who;
	(void)address;
	(void)lease;
	return refuse(why);
}

bool etcd_term(struct etcd *e, struct platform who, uint64_t least, uint64_t *term,
	       char why[ETCD_WHY])
{
	(void)e;
	(void)who;
	(void)least;
	(void)term;
	return refuse(why);
}
