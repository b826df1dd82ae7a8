/* SPDX-License-Identifier: BSD-2-Clause */
/* The Internet checksum; headers and their checksums are read back in driver/capture_test.c. */
#include "wire/inet.h"

#include "base/prng.h"
#include "test.h"

/* RFC 1071 as it says it: 16-bit words, carries added at the end. */
static uint32_t sum_plainly(const uint8_t *bytes, size_t length)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < length; i++)
		sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
	while (sum >> 16)
		sum = (sum >> 16) + (sum & 0xffff);
	return sum;
}

TEST(test_rfc1071_3_example)
{
	static const uint8_t bytes[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };
	struct inet_sum s = { 0 };

	inet_sum_add(&s, bytes, sizeof(bytes));
	EXPECT_EQ(s.sum, 0xddf2);
	EXPECT(!s.is_odd);
}

TEST(test_rfc1071_2_any_pieces_same_sum)
{
	uint8_t bytes[300];
	struct prng p = { 7 };

	for (int round = 0; round < 2000; round++) {
		size_t length = prng_below(&p, sizeof(bytes) + 1), done = 0;
		struct inet_sum s = { 0 };

		/* Many of 0xff, so that carries happen. */
		for (size_t i = 0; i < length; i++)
			bytes[i] = prng_below(&p, 2) ? 0xff : (uint8_t)prng_next(&p);
		while (done < length) {
			size_t n = 1 + prng_below(&p, 40);

			n = n < length - done ? n : length - done;
			inet_sum_add(&s, bytes + done, n);
			done += n;
		}
		EXPECT_EQ(s.sum, sum_plainly(bytes, length));
		EXPECT_EQ(s.is_odd, length % 2);
	}
}

/* A window that is announced small would seem to be full. */
TEST(test_rfc7323_2_2_syn_carries_window_scale)
{
	static const uint8_t options[] = { 2, 4, 0xff, 0xd7, 1, 3, 3, 14 };
	const struct inet_end a = { { 10, 0, 0, 1 }, 1 }, b = { { 10, 0, 0, 2 }, 2 };
	struct inet_tcp h = { .from = &a, .to = &b, .flags = INET_TCP_SYN, .window = 65535 };
	uint8_t bytes[INET_HEADERS_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));

	inet_tcp_encode(&h, &w);
	EXPECT_EQ(w.at - bytes, 48);
	EXPECT_EQ(inet_tcp_header_bytes(&h), 48);
	EXPECT_EQ(bytes[32], 0x70);
	EXPECT_MEM(bytes + 40, options, sizeof(options));
	h.is_ipv6 = true;
	EXPECT_EQ(inet_tcp_header_bytes(&h), INET_HEADERS_MAX);
	h.flags = INET_TCP_ACK;
	EXPECT_EQ(inet_tcp_header_bytes(&h), 60);
	h.is_ipv6 = false;
	EXPECT_EQ(inet_tcp_header_bytes(&h), 40);
}

/* RFC 768: a sum that comes out as 0 is sent as all ones, for 0 means that there is none. */
TEST(test_rfc768_checksum_is_never_none)
{
	const struct inet_end a = { { 0 }, 0 }, b = { { 0 }, 0xffe6 };
	struct inet_udp h = { .from = &a, .to = &b };
	uint8_t bytes[INET_HEADERS_MAX];
	uint32_t none = 0;

	EXPECT_EQ(inet_udp_header_bytes(&h), 28);
	for (uint32_t port = 0; port <= UINT16_MAX; port++) {
		const struct inet_end from = { { 0 }, (uint16_t)port };
		struct wr w = wr_of(bytes, sizeof(bytes));

		h.from = &from;
		inet_udp_encode(&h, &w);
		EXPECT_EQ(w.at - bytes, 28);
		none += bytes[26] == 0xff && bytes[27] == 0xff;
		EXPECT(bytes[26] != 0 || bytes[27] != 0);
	}
	EXPECT_EQ(none, 1);
}
