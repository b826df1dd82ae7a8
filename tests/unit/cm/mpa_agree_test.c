/* SPDX-License-Identifier: BSD-2-Clause */
/* RFC 6581: depths and ready-to-receive messages that our own ends never say, and siw's frames. */
#include "cm_fixture.h"

enum { A = 0x8000, B = 0x4000, C = 0x8000, D = 0x4000, UNKNOWN = MPA_DEPTH_UNKNOWN };

static struct mpa_config config_of(uint16_t ird, uint16_t ord, bool is_peer_to_peer)
{
	return (struct mpa_config){
		.revision = 2,
		.is_peer_to_peer = is_peer_to_peer,
		.ird = ird,
		.ord = ord,
		.timeout_ns = CM_TIMEOUT_NS,
	};
}

/* ---- Depths --------------------------------------------------------------------------------- */

TEST(test_rfc6581_9_1_responder_depths)
{
	/* The request's depths, this end's, what is replied, and what holds. */
	static const struct {
		uint16_t ird, ord, own_ird, own_ord;
		uint16_t reply_ird, reply_ord, terms_ird, terms_ord;
	} rows[] = {
		{ 4, 4, 8, 8, 8, 4, 8, 4 },
		{ 8, 8, 4, 4, 4, 4, 4, 4 },
		{ 0, 9, 4, 4, 4, 0, 4, 0 },
		{ 9, 0, 4, 4, 4, 4, 4, 4 },
		{ 4, 4, 0, 0, 0, 0, 0, 0 },
		{ 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe, 0x3ffe },
		/* What is left open stays open, each direction by itself. */
		{ UNKNOWN, 2, 8, 7, 8, UNKNOWN, 8, 7 },
		{ 2, UNKNOWN, 8, 7, UNKNOWN, 2, 8, 2 },
		{ UNKNOWN, UNKNOWN, 8, 7, UNKNOWN, UNKNOWN, 8, 7 },
	};

	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		const struct mpa_config config = config_of(rows[n].own_ird, rows[n].own_ord, false);
		const struct cm_frame request = cm_enhanced("Req", 0, rows[n].ird, rows[n].ord);
		const struct cm_frame expected = cm_enhanced("Rep", 0, rows[n].reply_ird,
							     rows[n].reply_ord);
		struct cm_frame reply;
		struct mpa_setup s;

		cm_was_asked(&s, &config, &request);
		EXPECT_EQ(mpa_setup_peer(&s).ird, rows[n].ird);
		EXPECT_EQ(mpa_setup_peer(&s).ord, rows[n].ord);
		reply = cm_accept(&s, cm_nothing());
		EXPECT_EQ(reply.length, expected.length);
		EXPECT_MEM(reply.bytes, expected.bytes, expected.length);
		EXPECT_EQ(mpa_setup_terms(&s)->ird, rows[n].terms_ird);
		EXPECT_EQ(mpa_setup_terms(&s)->ord, rows[n].terms_ord);
	}
}

TEST(test_rfc6581_9_1_initiator_depths)
{
	static const struct {
		uint16_t own_ird, own_ord, ird, ord; /* this end's, and the reply's */
		enum weft_reason reason;
		uint16_t terms_ord;
	} rows[] = {
		{ 4, 4, 4, 4, WEFT_OK, 4 },
		{ 4, 4, 2, 3, WEFT_OK, 2 },
		{ 4, 4, 9, 0, WEFT_OK, 4 },
		{ 4, 4, 0, 4, WEFT_OK, 0 },
		{ 4, 4, UNKNOWN, 4, WEFT_OK, 4 },
		{ 4, 4, 3, UNKNOWN, WEFT_OK, 3 },
		{ 0, 4, UNKNOWN, UNKNOWN, WEFT_OK, 4 },
		{ 4, 4, 3, 5, WEFT_R_MPA_DEPTH, 3 },
		{ 0, 4, 4, 1, WEFT_R_MPA_DEPTH, 4 },
		{ 4, 4, 4, 0x3ffe, WEFT_R_MPA_DEPTH, 4 },
	};

	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		const struct mpa_config config = config_of(rows[n].own_ird, rows[n].own_ord, false);
		const struct cm_frame reply = cm_enhanced("Rep", CM_C, rows[n].ird, rows[n].ord);
		bool is_good = rows[n].reason == WEFT_OK;
		struct mpa_setup s;

		cm_asked(&s, &config);
		EXPECT_EQ(cm_feed_frame(&s, &reply), reply.length);
		EXPECT_EQ(mpa_setup_event(&s), is_good ? MPA_SETUP_ESTABLISHED : MPA_SETUP_FAILED);
		EXPECT_EQ(mpa_setup_reason(&s), rows[n].reason);
		EXPECT_EQ(mpa_setup_must_terminate(&s), !is_good);
		EXPECT_EQ(mpa_setup_peer(&s).ird, rows[n].ird);
		EXPECT_EQ(mpa_setup_peer(&s).ord, rows[n].ord);
		/* Also when it failed: the Terminate needs the terms of the stream. */
		EXPECT(mpa_setup_terms(&s)->is_initiator && mpa_setup_terms(&s)->has_crc);
		EXPECT_EQ(mpa_setup_terms(&s)->ird, rows[n].own_ird);
		EXPECT_EQ(mpa_setup_terms(&s)->ord, rows[n].terms_ord);
	}
}

/* ---- Ready to receive ----------------------------------------------------------------------- */

TEST(test_rfc6581_9_2_responder_chooses)
{
	static const struct {
		uint16_t b, cd; /* what is offered with A */
		uint16_t own_ird;
		uint16_t reply_b, reply_cd;
		enum iwarp_rtr rtr;
	} rows[] = {
		{ B, C | D, 4, 0, C, IWARP_RTR_WRITE },
		{ 0, C | D, 4, 0, C, IWARP_RTR_WRITE },
		{ B, C, 0, 0, C, IWARP_RTR_WRITE },
		{ 0, C, 0, 0, C, IWARP_RTR_WRITE },
		{ 0, D, 1, 0, D, IWARP_RTR_READ },
		{ B, D, 4, 0, D, IWARP_RTR_READ },
		{ B, D, 0, B, 0, IWARP_RTR_SEND },
		{ B, 0, 4, B, 0, IWARP_RTR_SEND },
		/* Nothing in common: one that is supported here is named nevertheless. */
		{ 0, D, 0, 0, C, IWARP_RTR_WRITE },
		{ 0, 0, 4, 0, C, IWARP_RTR_WRITE },
	};

	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		const struct mpa_config config = config_of(rows[n].own_ird, 4, false);
		const struct cm_frame request = cm_enhanced("Req", 0, A | rows[n].b | 4,
							    rows[n].cd | 4);
		const struct cm_frame expected = cm_enhanced(
			"Rep", 0, A | rows[n].reply_b | rows[n].own_ird, rows[n].reply_cd | 4);
		struct cm_frame reply;
		struct mpa_setup s;

		cm_was_asked(&s, &config, &request);
		EXPECT(mpa_setup_peer(&s).is_peer_to_peer);
		reply = cm_accept(&s, cm_nothing());
		EXPECT_EQ(reply.length, expected.length);
		EXPECT_MEM(reply.bytes, expected.bytes, expected.length);
		EXPECT_EQ(mpa_setup_terms(&s)->rtr, rows[n].rtr);
	}
}

/* The program serves no Reads here, though the adapter could. */
TEST(test_rfc6581_9_2_no_read_where_the_program_serves_none)
{
	const struct mpa_config config = config_of(4, 4, false);
	const struct cm_frame request = cm_enhanced("Req", 0, A | B | 4, D | 4);
	const struct mpa_answer answer = { cm_nothing(), 0, 4 };
	struct cm_frame reply;
	struct mpa_setup s;

	cm_was_asked(&s, &config, &request);
	EXPECT_EQ(mpa_setup_accept(&s, &answer, 0), WEFT_OK);
	reply = cm_drain(&s, CM_BYTES_MAX);
	EXPECT_MEM(reply.bytes + 20, "\xc0\0\0\4", 4);
	EXPECT_EQ(mpa_setup_terms(&s)->rtr, IWARP_RTR_SEND);
}

TEST(test_rfc6581_9_2_initiator_chooses)
{
	static const struct {
		uint16_t own_ord;
		uint16_t a, b, cd, ird; /* the reply's */
		enum iwarp_rtr rtr;	/* none: the stream is terminated */
	} rows[] = {
		{ 4, A, 0, C, 4, IWARP_RTR_WRITE },
		{ 4, A, B, C | D, 4, IWARP_RTR_WRITE },
		{ 0, A, 0, C | D, 0, IWARP_RTR_WRITE },
		{ 4, A, 0, D, 4, IWARP_RTR_READ },
		{ 1, A, B, D, 1, IWARP_RTR_READ },
		{ 4, A, 0, D, UNKNOWN, IWARP_RTR_READ },
		{ 4, A, 0, D, 0, IWARP_RTR_NONE }, /* a Read that neither end can serve */
		{ 0, A, 0, D, 4, IWARP_RTR_NONE }, /* a Read that was not offered */
		{ 4, A, B, 0, 4, IWARP_RTR_NONE },
		{ 4, A, 0, 0, 4, IWARP_RTR_NONE },
		{ 4, 0, 0, 0, 4, IWARP_RTR_NONE },
		{ 4, 0, B, C | D, 4, IWARP_RTR_NONE }, /* without A the others are nothing */
	};

	for (size_t n = 0; n < sizeof(rows) / sizeof(rows[0]); n++) {
		const struct mpa_config config = config_of(4, rows[n].own_ord, true);
		const struct cm_frame reply = cm_enhanced(
			"Rep", CM_M, rows[n].a | rows[n].b | rows[n].ird, rows[n].cd | 4);
		bool is_good = rows[n].rtr != IWARP_RTR_NONE;
		struct mpa_setup s;

		cm_asked(&s, &config);
		EXPECT_EQ(cm_feed_frame(&s, &reply), reply.length);
		EXPECT_EQ(mpa_setup_event(&s), is_good ? MPA_SETUP_ESTABLISHED : MPA_SETUP_FAILED);
		EXPECT_EQ(mpa_setup_reason(&s), is_good ? WEFT_OK : WEFT_R_MPA_RTR);
		EXPECT_EQ(mpa_setup_must_terminate(&s), !is_good);
		EXPECT_EQ(mpa_setup_terms(&s)->rtr, rows[n].rtr);
		EXPECT(mpa_setup_terms(&s)->sends_markers && !mpa_setup_terms(&s)->has_crc);
	}
}

/* Two wrongs in one reply: the depth is judged first. */
TEST(test_rfc6581_8_first_error_wins)
{
	const struct mpa_config config = config_of(4, 4, true);
	const struct cm_frame reply = cm_enhanced("Rep", 0, 4, 5);
	struct mpa_setup s;

	cm_asked(&s, &config);
	(void)cm_feed_frame(&s, &reply);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_FAILED);
	EXPECT_EQ(mpa_setup_reason(&s), WEFT_R_MPA_DEPTH);
}

/* ---- Linux siw: its start frames, as captured ------------------------------------------------ */

#define REQUEST_KEY "MPA ID Req Frame"
#define REPLY_KEY "MPA ID Rep Frame"

/* The wishes of both ends, and the frames that Linux made of them. */
struct siw_row {
	struct mpa_config config; /* of either end */
	uint16_t answer_ird, answer_ord;
	size_t request_length, reply_length;
	const char *request, *reply; /* with private data */
	struct iwarp_terms terms;    /* the initiator's */
};

static const struct siw_row siw[] = {
	/* Rping */
	{ .config = { .revision = 2, .ird = 1, .ord = 1, .timeout_ns = 1 },
	  .answer_ird = 1,
	  .answer_ord = 1,
	  .request_length = 24,
	  .request = REQUEST_KEY "\x10\2\0\4\0\1\0\1",
	  .reply_length = 24,
	  .reply = REPLY_KEY "\x10\2\0\4\0\1\0\1",
	  .terms = { .ird = 1, .ord = 1 } },
	/* Rping with CRC */
	{ .config = { .revision = 2, .wants_crc = true, .ird = 1, .ord = 1, .timeout_ns = 1 },
	  .answer_ird = 1,
	  .answer_ord = 1,
	  .request_length = 24,
	  .request = REQUEST_KEY "\x50\2\0\4\0\1\0\1",
	  .reply_length = 24,
	  .reply = REPLY_KEY "\x50\2\0\4\0\1\0\1",
	  .terms = { .has_crc = true, .ird = 1, .ord = 1 } },
	/* Peer to peer */
	{ .config = { .revision = 2, .is_peer_to_peer = true, .ird = 1, .ord = 1, .timeout_ns = 1 },
	  .answer_ird = 1,
	  .answer_ord = 1,
	  .request_length = 24,
	  .request = REQUEST_KEY "\x10\2\0\4\x80\1\xc0\1",
	  .reply_length = 24,
	  .reply = REPLY_KEY "\x10\2\0\4\x80\1\x80\1",
	  .terms = { .ird = 1, .ord = 1, .rtr = IWARP_RTR_WRITE } },
	/* Revision 1 */
	{ .config = { .revision = 1, .ird = 4, .ord = 4, .timeout_ns = 1 },
	  .answer_ird = 4,
	  .answer_ord = 4,
	  .request_length = 29,
	  .request = REQUEST_KEY "\0\1\0\x09weft-rig",
	  .reply_length = 36,
	  .reply = REPLY_KEY "\0\1\0\x10\0\0\xff\xff\x9e\x21\xf0\0\x04\x3e\x53\0\0\x04\0\0",
	  .terms = { .ird = 4, .ord = 4 } },
	/* Private data */
	{ .config = { .revision = 2, .ird = 4, .ord = 4, .timeout_ns = 1 },
	  .answer_ird = 4,
	  .answer_ord = 4,
	  .request_length = 33,
	  .request = REQUEST_KEY "\x10\2\0\x0d\0\4\0\4weft-rig",
	  .reply_length = 40,
	  .reply = REPLY_KEY
	  "\x10\2\0\x14\0\4\0\4\0\0\xff\xff\xab\x4b\xf0\0\xaf\x8d\xc1\0\0\x04\0\0",
	  .terms = { .ird = 4, .ord = 4 } },
	/* NVMe: the target reads and writes, the host only serves */
	{ .config = { .revision = 2, .ird = 128, .ord = 0, .timeout_ns = 1 },
	  .answer_ird = 0,
	  .answer_ord = 128,
	  .request_length = 56,
	  .request = REQUEST_KEY "\x10\2\0\x24\0\x80\0\0\0\0\0\0\x20\0\x1f\0\0\0\0\0\0\0\0\0"
				 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
	  .reply_length = 56,
	  .reply = REPLY_KEY "\x10\2\0\x24\0\0\0\x80\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0"
			     "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
	  .terms = { .ird = 128, .ord = 0 } },
};

/* Where the program's private data begins. */
static size_t siw_private_at(const struct siw_row *row)
{
	return row->config.revision == 2 ? 24 : 20;
}

/* An initiator of ours with siw's wishes sends what siw sent, and agrees with siw's reply. */
static void siw_as_responder(const struct siw_row *row)
{
	size_t at = siw_private_at(row);
	struct mpa_setup s;
	struct cm_frame request;

	EXPECT_EQ(mpa_setup_init_initiator(&s, &row->config,
					   cm_bytes(row->request + at, row->request_length - at),
					   0),
		  WEFT_OK);
	request = cm_drain(&s, CM_BYTES_MAX);
	EXPECT_EQ(request.length, row->request_length);
	EXPECT_MEM(request.bytes, row->request, row->request_length);
	EXPECT_EQ(cm_feed(&s, cm_bytes(row->reply, row->reply_length), CM_BYTES_MAX),
		  row->reply_length);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_ESTABLISHED);
	EXPECT_EQ(mpa_setup_terms(&s)->has_crc, row->terms.has_crc);
	EXPECT_EQ(mpa_setup_terms(&s)->ird, row->terms.ird);
	EXPECT_EQ(mpa_setup_terms(&s)->ord, row->terms.ord);
	EXPECT_EQ(mpa_setup_terms(&s)->rtr, row->terms.rtr);
	EXPECT_EQ(mpa_setup_peer(&s).private_data.length, row->reply_length - at);
	EXPECT_MEM(mpa_setup_peer(&s).private_data.bytes, row->reply + at, row->reply_length - at);
}

/* A responder of ours gives siw's request the reply that siw gave. */
static void siw_as_initiator(const struct siw_row *row)
{
	size_t at = siw_private_at(row);
	struct mpa_config config = row->config;
	struct mpa_setup s;
	struct cm_frame reply;

	config.ird = row->answer_ird;
	config.ord = row->answer_ord;
	mpa_setup_init_responder(&s, &config, 0);
	EXPECT_EQ(cm_feed(&s, cm_bytes(row->request, row->request_length), CM_BYTES_MAX),
		  row->request_length);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_REQUEST);
	EXPECT_EQ(mpa_setup_peer(&s).private_data.length, row->request_length - at);
	EXPECT_MEM(mpa_setup_peer(&s).private_data.bytes, row->request + at,
		   row->request_length - at);
	reply = cm_accept(&s, cm_bytes(row->reply + at, row->reply_length - at));
	EXPECT_EQ(reply.length, row->reply_length);
	EXPECT_MEM(reply.bytes, row->reply, row->reply_length);
	EXPECT_EQ(mpa_setup_terms(&s)->has_crc, row->terms.has_crc);
	EXPECT_EQ(mpa_setup_terms(&s)->ord, row->answer_ord);
	EXPECT_EQ(mpa_setup_terms(&s)->rtr, row->terms.rtr);
}

TEST(test_linux_siw_frames_both_ways)
{
	for (size_t n = 0; n < sizeof(siw) / sizeof(siw[0]); n++) {
		siw_as_responder(&siw[n]);
		siw_as_initiator(&siw[n]);
	}
}

/* siw told to open by a Read only; and its own flag 0x08, which is nothing to us. */
TEST(test_linux_siw_read_rtr_and_private_flag)
{
	static const char read_request[] = REQUEST_KEY "\x50\2\0\4\x80\1\x40\1";
	static const char read_reply[] = REPLY_KEY "\x50\2\0\4\x80\1\x40\1";
	static const char large[] = REQUEST_KEY "\x18\2\0\x0d\0\4\0\4weft-rig";
	const struct mpa_config config = config_of(1, 1, true);
	struct cm_frame reply;
	struct mpa_setup s;

	mpa_setup_init_responder(&s, &config, 0);
	(void)cm_feed(&s, cm_bytes(read_request, 24), 24);
	reply = cm_accept(&s, cm_nothing());
	EXPECT_EQ(reply.bytes[16], CM_S | CM_C); /* siw wanted CRC, so the reply has it */
	EXPECT_MEM(reply.bytes + 17, read_reply + 17, 7);
	EXPECT_EQ(mpa_setup_terms(&s)->rtr, IWARP_RTR_READ);
	EXPECT(mpa_setup_terms(&s)->has_crc);
	cm_asked(&s, &config);
	(void)cm_feed(&s, cm_bytes(read_reply, 24), 24);
	EXPECT_EQ(mpa_setup_event(&s), MPA_SETUP_ESTABLISHED);
	EXPECT_EQ(mpa_setup_terms(&s)->rtr, IWARP_RTR_READ);
	mpa_setup_init_responder(&s, &config, 0);
	(void)cm_feed(&s, cm_bytes(large, 33), 33);
	reply = cm_accept(&s, cm_nothing());
	EXPECT_EQ(reply.bytes[16], CM_S);
}
