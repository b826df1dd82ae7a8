/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys and their negotiation: RFC 7143 sections 6.2 and 13, RFC 7144, RFC 7145 section 6. */
#include "test.h"

#include <stdio.h>
#include <string.h>

#include "base/draw.h"
#include "iscsi/login/negotiate.h"

enum { ROOM = 8192, MIB = 1 << 20 };

static char said[ROOM]; /* pairs, a space after each */

static size_t zeros_of(uint8_t *text, const char *pairs)
{
	size_t length = strlen(pairs);

	for (size_t i = 0; i < length; i++)
		text[i] = (uint8_t)(pairs[i] == ' ' ? 0 : pairs[i]);
	return length;
}

/* What the end says to some pairs, each with a space after it. */
static enum weft_reason hear(struct iscsi_negotiation *n, const char *pairs)
{
	uint8_t in[ROOM];
	struct wr w = wr_of((uint8_t *)said, sizeof(said) - 1);
	enum weft_reason reason = iscsi_negotiation_take(n, in, zeros_of(in, pairs), &w);

	*w.at = 0;
	for (char *c = said; (uint8_t *)c < w.at; c++)
		*c = *c ? *c : ' ';
	return reason;
}

static const char *offers(struct iscsi_negotiation *n)
{
	struct wr w = wr_of((uint8_t *)said, sizeof(said) - 1);

	iscsi_negotiation_offer(n, &w);
	*w.at = 0;
	for (char *c = said; (uint8_t *)c < w.at; c++)
		*c = *c ? *c : ' ';
	return said;
}

static struct iscsi_negotiation_config config_of(bool is_target)
{
	struct iscsi_negotiation_config c = { .is_target = is_target, .is_leading = true };

	iscsi_params_init(&c.wish);
	return c;
}

static struct iscsi_negotiation begun(const struct iscsi_negotiation_config *c)
{
	struct iscsi_negotiation n;

	iscsi_negotiation_init(&n, c);
	iscsi_negotiation_begin(&n, ISCSI_STAGE_OPERATIONAL);
	return n;
}

static struct iscsi_negotiation end_of(bool is_target)
{
	struct iscsi_negotiation_config c = config_of(is_target);

	return begun(&c);
}

static enum weft_reason target_hears(const char *pairs)
{
	struct iscsi_negotiation n = end_of(true);

	return hear(&n, pairs);
}

TEST(test_rfc7143_13_defaults)
{
	struct iscsi_params p;
	const struct iscsi_session_params *s = &p.session;

	iscsi_params_init(&p);
	EXPECT_EQ(s->connections_max, 1);
	EXPECT_EQ(s->burst_bytes_max, 262144);
	EXPECT_EQ(s->first_burst_bytes_max, 65536);
	EXPECT_EQ(s->time2wait_s, 2);
	EXPECT_EQ(s->time2retain_s, 20);
	EXPECT_EQ(s->r2t_max, 1);
	EXPECT_EQ(s->error_recovery_level, 0);
	EXPECT_EQ(s->task_reporting, ISCSI_REPORTING_RFC3720);
	EXPECT_EQ(s->protocol_level, 1);
	EXPECT_EQ(s->unexpected_max, 0);
	EXPECT_EQ(s->ahs_bytes_max, 256);
	EXPECT_EQ(s->peer_ahs_bytes_max, 256);
	EXPECT(s->needs_r2t && s->has_immediate_data);
	EXPECT(s->has_pdus_in_order && s->has_sequences_in_order);
	EXPECT(!s->has_rdma && !s->has_tagged_solicited_only && !s->needs_hello);
	EXPECT_EQ(p.connection.header_digest, ISCSI_DIGEST_NONE);
	EXPECT_EQ(p.connection.data_digest, ISCSI_DIGEST_NONE);
	EXPECT_EQ(p.connection.recv_bytes_max, 8192);
	EXPECT_EQ(p.connection.send_bytes_max, 8192);
	EXPECT_EQ(p.connection.initiator_recv_bytes_max, 8192);
	EXPECT_EQ(p.connection.target_recv_bytes_max, 8192);
}

TEST(test_rfc7143_13_every_row_is_sound)
{
	for (int key = 0; key < ISCSI_KEY_COUNT; key++) {
		const struct iscsi_key_row *row = iscsi_key_row((enum iscsi_key)key);

		EXPECT(row->name && iscsi_is_label(iscsi_word(row->name)));
		EXPECT_EQ(iscsi_key_find(iscsi_word(row->name)), key);
		EXPECT(row->senders && row->stages);
		EXPECT(!iscsi_key_has_value(row) || row->low <= row->high || row->choices);
	}
	EXPECT_EQ(iscsi_key_find(iscsi_word("NoSuchKey")), ISCSI_KEY_COUNT);
}

/* One key, what a target with some wish answers, and what a value just out of range gets. */
static const struct {
	const char *key, *wish, *offer, *answer;
} rows[] = {
	{ "MaxConnections", "4", "8", "4" },
	{ "MaxConnections", "4", "2", "2" },
	{ "MaxConnections", "4", "0", "Reject" },
	{ "MaxConnections", "4", "65536", "Reject" },
	{ "InitialR2T", "No", "No", "No" },
	{ "InitialR2T", "Yes", "No", "Yes" },
	{ "InitialR2T", "No", "Yes", "Yes" },
	{ "InitialR2T", "No", "Maybe", "Reject" },
	{ "ImmediateData", "Yes", "Yes", "Yes" },
	{ "ImmediateData", "No", "Yes", "No" },
	{ "ImmediateData", "Yes", "No", "No" },
	{ "MaxBurstLength", "1048576", "16776192", "1048576" },
	{ "MaxBurstLength", "16777215", "16777215", "16777215" },
	{ "MaxBurstLength", "16777215", "16777216", "Reject" },
	{ "MaxBurstLength", "16777215", "511", "Reject" },
	{ "MaxBurstLength", "16777215", "0x200", "512" },
	{ "FirstBurstLength", "65536", "262144", "65536" },
	{ "FirstBurstLength", "65536", "511", "Reject" },
	{ "DefaultTime2Wait", "2", "0", "2" },
	{ "DefaultTime2Wait", "2", "3600", "3600" },
	{ "DefaultTime2Wait", "2", "3601", "Reject" },
	{ "DefaultTime2Retain", "20", "0", "0" },
	{ "DefaultTime2Retain", "0", "20", "0" },
	{ "DefaultTime2Retain", "0", "3601", "Reject" },
	{ "MaxOutstandingR2T", "16", "64", "16" },
	{ "MaxOutstandingR2T", "16", "0", "Reject" },
	{ "DataPDUInOrder", "No", "Yes", "Yes" },
	{ "DataSequenceInOrder", "No", "No", "No" },
	{ "ErrorRecoveryLevel", "0", "2", "0" },
	{ "ErrorRecoveryLevel", "2", "3", "Reject" },
	{ "iSCSIProtocolLevel", "2", "31", "2" },
	{ "iSCSIProtocolLevel", "2", "32", "Reject" },
	{ "RDMAExtensions", "Yes", "Yes", "Yes" },
	{ "RDMAExtensions", "No", "Yes", "No" },
	{ "HeaderDigest", "None,CRC32C", "CRC32C,None", "CRC32C" },
	{ "HeaderDigest", "None,CRC32C", "None,CRC32C", "None" },
	{ "HeaderDigest", "None", "CRC32C,None", "None" },
	{ "HeaderDigest", "CRC32C", "None", "Reject" },
	{ "DataDigest", "None,CRC32C", "SHA,CRC32C", "CRC32C" },
	{ "DataDigest", "None", "", "Reject" },
	{ "TaskReporting", "RFC3720,FastAbort", "ResponseFence,FastAbort", "FastAbort" },
	{ "TaskReporting", "RFC3720", "FastAbort", "Reject" },
};

TEST(test_rfc7143_13_each_key_is_answered_by_its_function)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct iscsi_negotiation_config c = config_of(true);
		const struct iscsi_key_row *row = iscsi_key_row(
			iscsi_key_find(iscsi_word(rows[i].key)));
		struct iscsi_negotiation n;
		char pair[128], expected[128];
		uint32_t wish = 0;

		if (row->kind == ISCSI_KIND_LIST) {
			struct word list = iscsi_word(rows[i].wish), item;

			for (int at = 0; iscsi_list_next(&list, &item); at += 4)
				wish |= iscsi_key_choose(row, 0x321, item) << at;
		} else {
			REQUIRE(iscsi_key_parse(row, iscsi_word(rows[i].wish), &wish));
		}
		iscsi_params_set(&c.wish, row, row->ours, wish);
		n = begun(&c);
		(void)snprintf(pair, sizeof(pair), "%s=%s ", rows[i].key, rows[i].offer);
		(void)snprintf(expected, sizeof(expected), "%s=%s ", rows[i].key, rows[i].answer);
		EXPECT_EQ(hear(&n, pair), WEFT_OK);
		EXPECT_STR(said, expected);
	}
}

TEST(test_rfc7143_13_12_each_end_declares_its_own_length)
{
	struct iscsi_negotiation_config c = config_of(true);
	struct iscsi_negotiation n;

	c.wish.connection.recv_bytes_max = MIB;
	n = begun(&c);
	EXPECT_EQ(hear(&n, "MaxRecvDataSegmentLength=65536 "), WEFT_OK);
	EXPECT_STR(said, "");
	EXPECT_STR(offers(&n), "MaxRecvDataSegmentLength=1048576 ");
	EXPECT_STR(offers(&n), "");
	EXPECT(iscsi_negotiation_is_settled(&n));
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_OK);
	EXPECT_EQ(n.params.connection.recv_bytes_max, MIB);
	EXPECT_EQ(n.params.connection.send_bytes_max, 65536);
	EXPECT_EQ(target_hears("MaxRecvDataSegmentLength=511 "), WEFT_R_ISCSI_VALUE);
	EXPECT_EQ(target_hears("MaxRecvDataSegmentLength=16777216 "), WEFT_R_ISCSI_VALUE);
}

TEST(test_rfc7143_6_2_unknown_keys_are_not_understood)
{
	struct iscsi_negotiation n = end_of(true);

	EXPECT_EQ(hear(&n, "X-com.example.a=1 NoSuchKey=x "), WEFT_OK);
	EXPECT_STR(said, "X-com.example.a=NotUnderstood NoSuchKey=NotUnderstood ");
	/* A refusal is answered by nothing: else two ends could go on for ever. */
	EXPECT_EQ(hear(&n, "NoSuchKey=NotUnderstood X-b=Reject "), WEFT_OK);
	EXPECT_STR(said, "");
	/* RFC 7143 section 13.26: declared, so there is no answer. */
	EXPECT_EQ(hear(&n, "X#NodeArchitecture=Linux "), WEFT_OK);
	EXPECT_STR(said, "");
}

TEST(test_rfc7143_13_25_obsolete_markers_are_rejected)
{
	struct iscsi_negotiation n = end_of(true);

	EXPECT_EQ(hear(&n, "OFMarker=No IFMarker=Yes OFMarkInt=2048~8192 IFMarkInt=1 "), WEFT_OK);
	EXPECT_STR(said, "OFMarker=Reject IFMarker=Reject OFMarkInt=Reject IFMarkInt=Reject ");
}

TEST(test_rfc7143_13_keys_come_from_their_side)
{
	struct iscsi_negotiation n = end_of(false);

	EXPECT_EQ(hear(&n, "SessionType=Normal "), WEFT_R_ISCSI_KEY_SENDER);
	EXPECT_EQ(hear(&n, "InitiatorName=iqn.2001-04.com.example "), WEFT_R_ISCSI_KEY_SENDER);
	EXPECT_EQ(target_hears("TargetPortalGroupTag=1 "), WEFT_R_ISCSI_KEY_SENDER);
	EXPECT_EQ(target_hears("TargetAlias=x "), WEFT_R_ISCSI_KEY_SENDER);
	EXPECT_EQ(hear(&n, "TargetPortalGroupTag=1 TargetAlias=x "), WEFT_OK);
	EXPECT_EQ(hear(&n, "TargetAddress=a TargetAddress=b "), WEFT_OK);
}

TEST(test_rfc7143_13_keys_come_in_their_stage)
{
	struct iscsi_negotiation n = end_of(true);

	EXPECT_EQ(hear(&n, "AuthMethod=None "), WEFT_R_ISCSI_KEY_STAGE);
	EXPECT_EQ(hear(&n, "SendTargets=All "), WEFT_R_ISCSI_KEY_STAGE);
	iscsi_negotiation_begin(&n, ISCSI_STAGE_SECURITY);
	EXPECT_EQ(hear(&n, "MaxBurstLength=512 "), WEFT_R_ISCSI_KEY_STAGE);
	EXPECT_EQ(hear(&n, "AuthMethod=None "), WEFT_OK);
}

TEST(test_rfc7143_13_full_feature_phase_changes_only_what_may_change)
{
	struct iscsi_negotiation n = end_of(true);

	for (int i = 0; i < 2; i++) {
		iscsi_negotiation_begin(&n, ISCSI_STAGE_FULL_FEATURE);
		EXPECT_EQ(hear(&n, "MaxRecvDataSegmentLength=65536 MaxBurstLength=512 "), WEFT_OK);
		EXPECT_STR(said, "MaxBurstLength=Reject ");
		EXPECT_EQ(n.params.connection.send_bytes_max, 65536);
		EXPECT_EQ(n.params.session.burst_bytes_max, 262144);
		EXPECT_EQ(hear(&n, "SendTargets=All "), WEFT_OK);
		EXPECT_EQ(hear(&n, "InitiatorName=iqn.2001-04.com.example "),
			  WEFT_R_ISCSI_KEY_STAGE);
		EXPECT_STR(offers(&n), "");
	}
}

TEST(test_rfc7143_6_3_keys_come_once)
{
	struct iscsi_negotiation n = end_of(true);

	EXPECT_EQ(hear(&n, "MaxBurstLength=512 "), WEFT_OK);
	EXPECT_EQ(hear(&n, "MaxBurstLength=512 "), WEFT_R_ISCSI_KEY_AGAIN);
	EXPECT_EQ(target_hears("ImmediateData=No ImmediateData=No "), WEFT_R_ISCSI_KEY_AGAIN);
	EXPECT_EQ(target_hears("InitiatorAlias=a InitiatorAlias=a "), WEFT_R_ISCSI_KEY_AGAIN);
}

TEST(test_rfc7143_6_3_answers_come_once)
{
	struct iscsi_negotiation_config c = config_of(false);
	struct iscsi_negotiation n;

	c.wish.session.r2t_max = 8;
	n = begun(&c);
	(void)offers(&n);
	EXPECT_EQ(hear(&n, "MaxOutstandingR2T=4 "), WEFT_OK);
	EXPECT_EQ(hear(&n, "MaxOutstandingR2T=4 "), WEFT_R_ISCSI_KEY_AGAIN);
}

TEST(test_rfc7143_13_discovery_makes_keys_irrelevant)
{
	struct iscsi_negotiation_config c = config_of(false);
	struct iscsi_negotiation n = end_of(true);

	/* The type is read first, wherever it stands. */
	EXPECT_EQ(hear(&n, "MaxBurstLength=512 ErrorRecoveryLevel=0 SessionType=Discovery "),
		  WEFT_OK);
	EXPECT(n.is_discovery);
	EXPECT_STR(said, "MaxBurstLength=Irrelevant ErrorRecoveryLevel=0 ");
	EXPECT_EQ(target_hears("SessionType=Other "), WEFT_R_ISCSI_VALUE);
	c.is_discovery = true;
	c.wish.session.r2t_max = 8;
	c.wish.session.time2retain_s = 0;
	n = begun(&c);
	EXPECT_STR(offers(&n), "DefaultTime2Retain=0 ");
}

TEST(test_rfc7143_13_later_connections_leave_the_session_alone)
{
	struct iscsi_negotiation_config c = config_of(true);
	struct iscsi_negotiation n;

	c.is_leading = false;
	c.session = c.wish.session;
	c.session.r2t_max = 3;
	c.wish.connection.header_digest = iscsi_list_of(ISCSI_DIGEST_CRC32C, ISCSI_DIGEST_NONE);
	n = begun(&c);
	EXPECT_EQ(hear(&n, "MaxOutstandingR2T=1 HeaderDigest=CRC32C "), WEFT_OK);
	EXPECT_STR(said, "MaxOutstandingR2T=Reject HeaderDigest=CRC32C ");
	EXPECT_EQ(n.params.session.r2t_max, 3);
	c.is_target = false;
	c.wish.session.r2t_max = 5;
	n = begun(&c);
	EXPECT_STR(offers(&n), "HeaderDigest=CRC32C,None ");
}

TEST(test_rfc7143_6_2_initiator_offers_what_is_not_the_default)
{
	struct iscsi_negotiation_config c = config_of(false);
	struct iscsi_negotiation n = begun(&c);

	EXPECT_STR(offers(&n), "");
	c.wish.session.needs_r2t = false;
	c.wish.session.burst_bytes_max = MIB;
	n = begun(&c);
	EXPECT_STR(offers(&n), "InitialR2T=No MaxBurstLength=1048576 ");
	EXPECT(!iscsi_negotiation_is_settled(&n));
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_R_ISCSI_NO_ANSWER);
	EXPECT_EQ(hear(&n, "InitialR2T=Yes MaxBurstLength=65536 "), WEFT_OK);
	EXPECT(iscsi_negotiation_is_settled(&n));
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_OK);
	EXPECT(n.params.session.needs_r2t);
	EXPECT_EQ(n.params.session.burst_bytes_max, 65536);
}

TEST(test_rfc7143_6_2_target_offers_what_it_cannot_take_at_its_default)
{
	struct iscsi_negotiation_config c = config_of(true);
	struct iscsi_negotiation n;

	c.wish.session.burst_bytes_max = MIB; /* more than the default: not worth an exchange */
	c.wish.session.time2retain_s = 0;
	c.wish.session.has_immediate_data = false;
	c.wish.session.time2wait_s = 5;
	c.wish.connection.header_digest = ISCSI_DIGEST_CRC32C;
	c.wish.connection.data_digest = iscsi_list_of(ISCSI_DIGEST_CRC32C, ISCSI_DIGEST_NONE);
	n = begun(&c);
	EXPECT_EQ(hear(&n, "DefaultTime2Wait=1 "), WEFT_OK);
	EXPECT_STR(said, "DefaultTime2Wait=5 ");
	EXPECT_STR(offers(&n), "HeaderDigest=CRC32C ImmediateData=No DefaultTime2Retain=0 ");
}

/* RFC 7143 section 6.2.2: a boolean that its offer settles may stay without an answer. */
TEST(test_rfc7143_6_2_2_settled_booleans_need_no_answer)
{
	struct iscsi_negotiation_config c = config_of(false);
	struct iscsi_negotiation n;

	c.wish.session.has_immediate_data = false;
	n = begun(&c);
	EXPECT_STR(offers(&n), "ImmediateData=No ");
	EXPECT(iscsi_negotiation_is_settled(&n) && !n.params.session.has_immediate_data);
	EXPECT_EQ(hear(&n, "ImmediateData=No "), WEFT_OK);
	n = begun(&c);
	(void)offers(&n);
	EXPECT_EQ(hear(&n, "ImmediateData=Yes "), WEFT_R_ISCSI_ANSWER);
}

TEST(test_rfc7143_6_2_answers_that_the_offer_does_not_allow)
{
	static const char *const bad[] = { "MaxBurstLength=1048577 ", "MaxBurstLength=511 ",
					   "MaxBurstLength=x ",	      "DefaultTime2Wait=4 ",
					   "InitialR2T=Maybe ",	      "HeaderDigest=MD5 ",
					   "DataDigest=None ",	      "HeaderDigest=CRC32C,None " };
	static const char *const good[] = { "MaxBurstLength=Reject ",	 "MaxBurstLength=512 ",
					    "DefaultTime2Wait=3600 ",	 "HeaderDigest=None ",
					    "DataDigest=NotUnderstood ", "InitialR2T=Irrelevant " };
	struct iscsi_negotiation_config c = config_of(false);
	struct iscsi_negotiation n;

	c.wish.session.burst_bytes_max = MIB;
	c.wish.session.time2wait_s = 5;
	c.wish.session.needs_r2t = false;
	c.wish.connection.header_digest = iscsi_list_of(ISCSI_DIGEST_CRC32C, ISCSI_DIGEST_NONE);
	c.wish.connection.data_digest = ISCSI_DIGEST_CRC32C;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		n = begun(&c);
		(void)offers(&n);
		EXPECT_EQ(hear(&n, bad[i]), WEFT_R_ISCSI_ANSWER);
	}
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		n = begun(&c);
		(void)offers(&n);
		EXPECT_EQ(hear(&n, good[i]), WEFT_OK);
		EXPECT_STR(said, "");
	}
}

TEST(test_rfc7143_6_2_refused_digest_is_not_accepted)
{
	struct iscsi_negotiation_config c = config_of(false);
	struct iscsi_negotiation n;

	c.wish.connection.data_digest = ISCSI_DIGEST_CRC32C;
	n = begun(&c);
	(void)offers(&n);
	EXPECT_EQ(hear(&n, "DataDigest=Reject "), WEFT_OK);
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_R_ISCSI_UNACCEPTABLE);
	c.wish.connection.data_digest = ISCSI_DIGEST_NONE;
	c.wish.connection.header_digest = ISCSI_DIGEST_CRC32C;
	n = begun(&c);
	(void)offers(&n);
	EXPECT_EQ(hear(&n, "HeaderDigest=Reject "), WEFT_OK);
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_R_ISCSI_UNACCEPTABLE);
}

TEST(test_rfc7143_13_14_first_burst_is_no_longer_than_a_burst)
{
	struct iscsi_negotiation n = end_of(true);

	EXPECT_EQ(hear(&n, "FirstBurstLength=65536 MaxBurstLength=4096 "), WEFT_OK);
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_OK);
	EXPECT_EQ(n.params.session.first_burst_bytes_max, 4096);
}

TEST(test_rfc7143_6_1_malformed_text_ends_the_negotiation)
{
	struct iscsi_negotiation n = end_of(true);
	struct wr w = wr_of((uint8_t *)said, 8);

	EXPECT_EQ(hear(&n, "MaxBurstLength "), WEFT_R_ISCSI_TEXT);
	EXPECT_EQ(hear(&n, "=1 "), WEFT_R_ISCSI_KEY);
	EXPECT_EQ(target_hears("InitiatorName=x "), WEFT_R_ISCSI_NAME);
	EXPECT_EQ(iscsi_negotiation_take(&n, (const uint8_t *)"NoKey=1", 8, &w),
		  WEFT_R_ISCSI_TEXT_LONG);
}

/* ---- RFC 7145 ------------------------------------------------------------------------------- */

static struct iscsi_negotiation_config rdma_config(bool is_target)
{
	struct iscsi_negotiation_config c = config_of(is_target);

	c.wish.session.has_rdma = true;
	c.needs_rdma = true;
	c.wish.connection.initiator_recv_bytes_max = is_target ? 262144 : 4096;
	c.wish.connection.target_recv_bytes_max = 65536;
	return c;
}

TEST(test_rfc7145_6_3_rdma_extensions_come_first)
{
	struct iscsi_negotiation_config c = rdma_config(false);
	struct iscsi_negotiation n, t;
	char offered[ROOM];

	c.wish.connection.header_digest = ISCSI_DIGEST_CRC32C;
	c.wish.connection.recv_bytes_max = MIB;
	c.wish.session.needs_hello = true;
	c.wish.session.ahs_bytes_max = 0;
	n = begun(&c);
	EXPECT_STR(offers(&n),
		   "RDMAExtensions=Yes InitiatorRecvDataSegmentLength=4096 "
		   "TargetRecvDataSegmentLength=65536 MaxAHSLength=0 iSERHelloRequired=Yes ");
	memcpy(offered, said, sizeof(offered));
	c = rdma_config(true);
	t = begun(&c);
	EXPECT_EQ(hear(&t, offered), WEFT_OK);
	EXPECT_STR(said, "RDMAExtensions=Yes InitiatorRecvDataSegmentLength=4096 "
			 "TargetRecvDataSegmentLength=65536 ");
	memcpy(offered, said, sizeof(offered));
	EXPECT_EQ(hear(&n, offered), WEFT_OK);
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_OK);
	EXPECT_EQ(iscsi_negotiation_finish(&t), WEFT_OK);
	EXPECT_EQ(n.params.connection.recv_bytes_max, 4096);
	EXPECT_EQ(n.params.connection.send_bytes_max, 65536);
	EXPECT_EQ(t.params.connection.recv_bytes_max, 65536);
	EXPECT_EQ(t.params.connection.send_bytes_max, 4096);
	EXPECT(t.params.session.needs_hello && t.params.session.peer_ahs_bytes_max == 0);
}

/* The order in a text is free: the digests stay off. */
TEST(test_rfc7145_6_1_no_digests_with_rdma_extensions)
{
	struct iscsi_negotiation_config c = rdma_config(true);
	struct iscsi_negotiation n;

	c.wish.connection.header_digest = iscsi_list_of(ISCSI_DIGEST_CRC32C, ISCSI_DIGEST_NONE);
	n = begun(&c);
	EXPECT_EQ(hear(&n, "HeaderDigest=CRC32C,None DataDigest=CRC32C "
			   "MaxRecvDataSegmentLength=262144 RDMAExtensions=Yes "),
		  WEFT_OK);
	EXPECT_STR(said, "RDMAExtensions=Yes HeaderDigest=None DataDigest=Reject ");
	EXPECT_EQ(n.params.connection.header_digest, ISCSI_DIGEST_NONE);
	EXPECT_EQ(n.params.connection.send_bytes_max, 8192);
	/* After a digest there are no extensions. */
	n = begun(&c);
	EXPECT_EQ(hear(&n, "HeaderDigest=CRC32C "), WEFT_OK);
	EXPECT_EQ(hear(&n, "RDMAExtensions=Yes "), WEFT_OK);
	EXPECT_STR(said, "RDMAExtensions=No ");
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_R_ISCSI_UNACCEPTABLE);
}

TEST(test_rfc7145_6_keys_without_rdma_extensions_are_irrelevant)
{
	struct iscsi_negotiation n = end_of(true);

	EXPECT_EQ(hear(&n, "InitiatorRecvDataSegmentLength=4096 MaxAHSLength=512 "
			   "TaggedBufferForSolicitedDataOnly=Yes "),
		  WEFT_OK);
	EXPECT_STR(said, "InitiatorRecvDataSegmentLength=Irrelevant ");
	EXPECT_EQ(n.params.session.peer_ahs_bytes_max, 256);
	EXPECT(!n.params.session.has_tagged_solicited_only);
}

TEST(test_rfc7145_6_8_zero_or_at_least_two)
{
	struct iscsi_negotiation_config c = rdma_config(true);
	struct iscsi_negotiation n = begun(&c);

	EXPECT_EQ(hear(&n, "RDMAExtensions=Yes MaxAHSLength=0 MaxOutstandingUnexpectedPDUs=2 "),
		  WEFT_OK);
	EXPECT_EQ(n.params.session.peer_unexpected_max, 2);
	n = begun(&c);
	EXPECT_EQ(hear(&n, "RDMAExtensions=Yes MaxAHSLength=1 "), WEFT_R_ISCSI_VALUE);
}

/* ---- Texts of others ------------------------------------------------------------------------ */

TEST(test_iscsi_keys_as_open_iscsi_offers_them)
{
	struct iscsi_negotiation_config c = config_of(true);
	struct iscsi_negotiation n;

	c.wish.session.needs_r2t = false;
	c.wish.session.burst_bytes_max = MIB;
	c.wish.session.first_burst_bytes_max = MIB;
	c.wish.session.r2t_max = 8;
	n = begun(&c);
	EXPECT_EQ(hear(&n, "HeaderDigest=None DataDigest=None DefaultTime2Wait=2 "
			   "DefaultTime2Retain=0 IFMarker=No OFMarker=No ErrorRecoveryLevel=0 "
			   "InitialR2T=No ImmediateData=Yes MaxBurstLength=16776192 "
			   "FirstBurstLength=262144 MaxOutstandingR2T=1 MaxConnections=1 "
			   "DataPDUInOrder=Yes DataSequenceInOrder=Yes "
			   "MaxRecvDataSegmentLength=262144 "),
		  WEFT_OK);
	EXPECT_STR(
		said,
		"HeaderDigest=None DataDigest=None "
		"DefaultTime2Wait=2 DefaultTime2Retain=0 IFMarker=Reject OFMarker=Reject "
		"ErrorRecoveryLevel=0 InitialR2T=No ImmediateData=Yes "
		"MaxBurstLength=1048576 FirstBurstLength=262144 MaxOutstandingR2T=1 MaxConnections=1 "
		"DataPDUInOrder=Yes DataSequenceInOrder=Yes ");
	EXPECT_EQ(iscsi_negotiation_finish(&n), WEFT_OK);
	EXPECT(!n.params.session.needs_r2t);
	EXPECT_EQ(n.params.connection.send_bytes_max, 262144);
}

/* ---- Both ends ------------------------------------------------------------------------------ */

static uint32_t random_list(struct prng *p)
{
	return (uint32_t)ANY_OF(p, 1, 2, 0x12, 0x21);
}

static void random_wish(struct iscsi_negotiation_config *c, struct prng *p, bool has_rdma)
{
	for (int key = 0; key < ISCSI_KEY_COUNT; key++) {
		const struct iscsi_key_row *row = iscsi_key_row((enum iscsi_key)key);
		uint32_t value;

		if (!iscsi_key_has_value(row) || prng_below(p, 3) == 0)
			continue;
		value = row->low + prng_below(p, row->high - row->low);
		if (row->kind == ISCSI_KIND_BOOLEAN)
			value = prng_below(p, 2);
		if (row->kind == ISCSI_KIND_LIST)
			value = random_list(p);
		iscsi_params_set(&c->wish, row, row->ours, value);
	}
	c->wish.session.has_rdma = has_rdma && prng_below(p, 2);
}

static void expect_agreement(const struct iscsi_negotiation *a, const struct iscsi_negotiation *b)
{
	for (int key = 0; key < ISCSI_KEY_COUNT; key++) {
		const struct iscsi_key_row *row = iscsi_key_row((enum iscsi_key)key);

		if (!iscsi_key_has_value(row))
			continue;
		if ((row->rules & ISCSI_RDMA) && !a->params.session.has_rdma)
			continue;
		EXPECT_EQ(iscsi_params_get(&a->params, row, row->ours),
			  iscsi_params_get(&b->params, row, row->theirs));
		EXPECT_EQ(iscsi_params_get(&a->params, row, row->theirs),
			  iscsi_params_get(&b->params, row, row->ours));
	}
}

/* Whatever two ends want, they come to the same, within what each can take. */
TEST(test_rfc7143_6_2_random_wishes_come_to_one_outcome)
{
	struct prng prng = { 21 };
	int agreed = 0;

	for (int round = 0; round < HISTORIES(4000); round++) {
		struct iscsi_negotiation_config ci = config_of(false), ct = config_of(true);
		struct iscsi_negotiation ends[2];
		uint8_t text[2][ROOM];
		size_t length = 0;
		bool is_taken = true;
		int turns = 0;

		random_wish(&ci, &prng, round & 1);
		random_wish(&ct, &prng, round & 1);
		ci.is_discovery = prng_below(&prng, 8) == 0;
		ends[0] = begun(&ci);
		ends[1] = begun(&ct);
		ends[1].is_discovery = ci.is_discovery;
		do {
			struct iscsi_negotiation *n = &ends[turns & 1];
			struct wr w = wr_of(text[turns & 1], ROOM);

			EXPECT_EQ(iscsi_negotiation_take(n, text[~turns & 1], length, &w), WEFT_OK);
			iscsi_negotiation_offer(n, &w);
			EXPECT(!w.is_short);
			length = (size_t)(w.at - text[turns & 1]);
			EXPECT(++turns < 12);
		} while (turns < 2 || length > 0);
		for (int i = 0; i < 2; i++) {
			enum weft_reason reason = iscsi_negotiation_finish(&ends[i]);

			EXPECT(reason == WEFT_OK || reason == WEFT_R_ISCSI_UNACCEPTABLE);
			is_taken = is_taken && reason == WEFT_OK;
		}
		if (is_taken)
			expect_agreement(&ends[0], &ends[1]);
		agreed += is_taken;
	}
	EXPECT(agreed > HISTORIES(1000));
}
