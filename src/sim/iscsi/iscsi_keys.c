/* SPDX-License-Identifier: BSD-2-Clause */
/* What was negotiated, by the text that passes: an answer comes after its offer, and counts. */
#include <stdlib.h>
#include <string.h>

#include "sim/iscsi/iscsi_world.h"

void isw_keys_init(struct isw_keys *k)
{
	*k = (struct isw_keys){
		.is_r2t_needed = true,
		.has_immediate = true,
		.burst = 262144,
		.first_burst = 65536,
		.r2ts = 1,
		.recv = { 8192, 8192 },
	};
}

static bool is_key(const char *pair, const char *key, const char **value)
{
	size_t n = strlen(key);

	if (strncmp(pair, key, n) != 0 || pair[n] != '=')
		return false;
	*value = pair + n + 1;
	return true;
}

static void take_pair(struct isw_keys *k, enum iscsi_side side, const char *pair)
{
	const char *v;

	if (is_key(pair, "HeaderDigest", &v))
		k->has_header_digest = strcmp(v, "CRC32C") == 0;
	else if (is_key(pair, "DataDigest", &v))
		k->has_data_digest = strcmp(v, "CRC32C") == 0;
	else if (is_key(pair, "InitialR2T", &v))
		k->is_r2t_needed = strcmp(v, "Yes") == 0;
	else if (is_key(pair, "ImmediateData", &v))
		k->has_immediate = strcmp(v, "Yes") == 0;
	else if (is_key(pair, "MaxBurstLength", &v))
		k->burst = (uint32_t)strtoul(v, NULL, 0);
	else if (is_key(pair, "FirstBurstLength", &v))
		k->first_burst = (uint32_t)strtoul(v, NULL, 0);
	else if (is_key(pair, "MaxOutstandingR2T", &v))
		k->r2ts = (uint32_t)strtoul(v, NULL, 0);
	else if (is_key(pair, "MaxRecvDataSegmentLength", &v))
		k->recv[side] = (uint32_t)strtoul(v, NULL, 0);
}

void isw_keys_take(struct isw_keys *k, enum iscsi_side side, const uint8_t *text, uint32_t length)
{
	uint32_t at = 0;

	while (at < length) {
		const uint8_t *end = memchr(text + at, 0, length - at);

		if (!end)
			return;
		take_pair(k, side, (const char *)text + at);
		at = (uint32_t)(end - text) + 1;
	}
}
