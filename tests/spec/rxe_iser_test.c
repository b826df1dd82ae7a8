/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session of the Linux kernel's iSER, ib_iser with ib_isert, over rxe: each Send is an iSER
 * header and a PDU of iSCSI, and none is refused.
 */
#include "rxe_golden.h"
#include "test.h"
#include "wire/iba.h"
#include "wire/iscsi.h"
#include "wire/iser.h"

enum { INITIATOR_HOST = 12 };

struct seen {
	uint32_t opcodes[64];
	uint32_t writes, reads;
};

static void take_send(const struct iba_packet *packet, enum iscsi_side sender, struct seen *seen)
{
	struct rd r = rd_of(packet->payload, packet->payload_bytes);
	uint8_t bytes[ISER_HEADER_BYTES + ISCSI_HEADER_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct iser_header header;
	struct iscsi_pdu pdu;

	MUST(iser_decode(&header, ISER_RFC7145, &r));
	REQUIRE(header.kind == ISER_CONTROL);
	harness_note("opcode 0x%02x", r.at[0]);
	MUST(iscsi_decode(&pdu, sender, r, ISCSI_DATA_MAX));
	/* There are no digests, but there is padding; data may go on in the next packets. */
	if (iba_form(packet->opcode)->traits & IBA_LAST)
		MUST_EQ(iscsi_pdu_bytes(r.at, false, false), r.end - r.at);
	iser_encode(&header, ISER_RFC7145, &w);
	iscsi_encode(&pdu, &w);
	EXPECT_MEM(bytes, packet->payload, ISER_HEADER_BYTES);
	seen->opcodes[pdu.opcode]++;
	seen->writes += header.has_write && pdu.is_write && header.write_stag != 0;
	seen->reads += header.has_read && pdu.is_read && header.read_stag != 0;
}

TEST(test_rfc7145_9_every_message_of_the_kernels_iser)
{
	struct rxe *r = rxe_open("iser");
	struct seen seen = { 0 };

	for (uint32_t i = 0; i < r->count; i++) {
		const struct rxe_packet *p = &r->packets[i];
		struct iba_packet packet;
		const struct iba_form *form;

		MUST(iba_decode(&packet, p->bytes, p->length));
		form = iba_form(packet.opcode);
		if (iba_service(packet.opcode) != IBA_RC || form->kind != IBA_KIND_SEND ||
		    !(form->traits & IBA_FIRST))
			continue;
		take_send(&packet, p->header[15] == INITIATOR_HOST ? ISCSI_INITIATOR : ISCSI_TARGET,
			  &seen);
	}
	EXPECT(seen.opcodes[ISCSI_LOGIN_REQUEST] > 0 && seen.opcodes[ISCSI_LOGIN_RESPONSE] > 0);
	EXPECT(seen.opcodes[ISCSI_SCSI_COMMAND] > 0);
	EXPECT_EQ(seen.opcodes[ISCSI_SCSI_COMMAND], seen.opcodes[ISCSI_SCSI_RESPONSE]);
	EXPECT(seen.opcodes[ISCSI_LOGOUT_REQUEST] > 0 && seen.opcodes[ISCSI_LOGOUT_RESPONSE] > 0);
	EXPECT(seen.writes > 0 && seen.reads > 0);
	rxe_close(r);
}
