/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "live/iscsi/live_iscsi.h"

uint8_t pattern[DATA_BYTES];

void fill_pattern(uint32_t seed)
{
	for (size_t i = 0; i < DATA_BYTES; i++)
		pattern[i] = (uint8_t)((i + seed) * 7 + i / 253);
}

void pair_open(struct pair *p, const struct consumer_options *o,
	       const struct weft_iscsi_terms *terms)
{
	script_open(&p->s);
	if (terms)
		p->s.after_login = *terms;
	consumer_open(&p->c, o);
	script_connect(&p->s, &p->c);
}

void pair_close(struct pair *p)
{
	consumer_close(&p->c);
	if (!p->c.is_beside)
		MUST(weft_adapter_close(p->c.adapter));
	script_close(&p->s);
}

static uint32_t begin(struct pair *p, const struct iscsi_pdu *pdu, size_t offset, uint32_t *id)
{
	uint32_t command_id = consumer_command(&p->c, pdu, offset);

	if (id)
		*id = command_id;
	expect_sent_well(&p->c);
	return script_take(&p->s, ISCSI_SCSI_COMMAND)->pdu.itt;
}

uint32_t pair_read(struct pair *p, size_t offset, uint32_t blocks, uint32_t *command_id)
{
	const struct iscsi_pdu pdu = read_pdu(&p->c, 0, blocks);

	return begin(p, &pdu, offset, command_id);
}

uint32_t pair_write(struct pair *p, size_t offset, uint32_t blocks, uint32_t *command_id)
{
	const struct iscsi_pdu pdu = write_pdu(&p->c, 0, blocks);

	return begin(p, &pdu, offset, command_id);
}

void pair_finish(struct pair *p, uint32_t itt)
{
	struct arrival a;

	script_response(&p->s, itt);
	a = expect_arrival(&p->c, WEFT_OP_RECV_ISCSI_RESPONSE, WEFT_OK);
	REQUIRE(a.completion.has_invalidated && a.completion.invalidated_tag == itt);
}

void expect_goes_on(struct pair *p)
{
	uint32_t itt = pair_read(p, 0, 4, NULL);

	fill_pattern(itt);
	script_data_in(&p->s, itt, 0, pattern, 4 * BLOCK_BYTES);
	(void)expect_arrival(&p->c, WEFT_OP_RECV_ISCSI_DATA, WEFT_OK);
	REQUIRE(memcmp(p->c.memory, pattern, 4 * BLOCK_BYTES) == 0);
	pair_finish(p, itt);
}
