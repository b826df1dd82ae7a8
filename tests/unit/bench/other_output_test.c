/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs of others print, as they printed it. */
#include "bench/other_output.h"

#include <string.h>

#include "test.h"

static const char ucx_text[] =
	"iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
	"20000,4.677,4.747,4.750,1.61,1.62,210659,210526\n";

static const char pingpong_text[] =
	"bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"
	"64k     2k      =2k      250m        0.08s   3222.30      20.34       0.05\n";

static const char tcp_list[] =
	"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
	"   0: 0100007F:3419 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
	"   1: 0100007F:A032 0100007F:3420 01 00000000:00000000 00:00000000 00000000     0\n";

static const char tcp6_list[] =
	"   0: 00000000000000000000000000000000:B9E8 00000000000000000000000000000000:0000 0A\n";

TEST(test_other_output_ucx_takes_the_overall_numbers)
{
	struct other_result r;

	EXPECT(other_output_ucx(ucx_text, &r));
	EXPECT(r.latency_ns > 4749.9 && r.latency_ns < 4750.1);
	EXPECT_EQ(r.messages_per_s, 210526);
}

TEST(test_other_output_mpi_takes_the_line_of_the_program)
{
	struct other_result r = { 1, 1 };

	EXPECT(other_output_mpi("[vm:1] a remark of mpirun\nmpi_pair: 1533.5 326051.2\n", &r));
	EXPECT(r.latency_ns > 1533.4 && r.latency_ns < 1533.6);
	EXPECT(r.messages_per_s > 326051.1 && r.messages_per_s < 326051.3);
	EXPECT(other_output_mpi("mpi_pair: 0.0 2568.0\n", &r));
	EXPECT(r.latency_ns == 0 && r.messages_per_s == 2568);
	EXPECT(!other_output_mpi("PML ucx cannot be selected\nmpi_pair: 0.0 0.0\n", &r));
	EXPECT_EQ(r.messages_per_s, 2568);
}

TEST(test_other_output_ucx_says_whether_it_has_mpi)
{
	EXPECT(other_output_ucx_has_mpi(
		"     -p <port>      TCP port to use for data exchange (13337)\n"
		"     -P <0|1>       disable/enable MPI mode (0)\n"));
	EXPECT(!other_output_ucx_has_mpi(
		"     -p <port>      TCP port to use for data exchange (13337)\n"
		"     -h             show this help message.\n"));
	EXPECT(!other_output_ucx_has_mpi(""));
}

TEST(test_other_output_ucx_passes_over_what_is_around)
{
	struct other_result r;

	EXPECT(other_output_ucx("[1794717431.594467] [vm:26604:0] UCX  WARN  7,7,7,7,7,7,7,7\n"
				"iterations,avg_lat,overall_lat,overall_mr\n"
				"warning, not, the, numbers\n"
				"\n"
				"   1, 9.5, 10.967, 91181\r\n"
				"5,5,5,5\n",
				&r));
	EXPECT(r.latency_ns > 10966.9 && r.latency_ns < 10967.1);
	EXPECT_EQ(r.messages_per_s, 91181);
}

TEST(test_other_output_ucx_without_numbers_changes_nothing)
{
	static const char *const texts[] = {
		"",
		"\n",
		"20000,4.677,4.747,4.750,1.61,1.62,210659,210526\n",
		"iterations,avg_lat,overall_lat,overall_mr\n",
		"iterations,avg_lat,overall_lat,overall_mr\n20000,4.6,4.7\n",
		"iterations,avg_lat,overall_lat,overall_mr\n20000,4.6,0,210526\n",
		"iterations,avg_lat,overall_lat,overall_mr\n20000,4.6,-4.7,210526\n",
		"iterations,avg_lat,overall_lat,overall_mr\n20000,4.6,4.7,nan\n",
		"iterations,avg_lat,overall_lat,overall_mr\n20000,4.6,4.7,inf\n",
		"iterations,avg_lat,overall_lat,overall_mr\n20000,4.6,4.7us,210526\n",
		"iterations,avg_lat,overall_lat,overall_mr\n20000,4.6,bad,210526\n20000,4.6,4.7\n",
		"iterations,avg_lat,overall_lat\n20000,4.6,4.7,210526\n",
		"connect() failed: Connection refused\n",
	};
	struct other_result r = { 1, 2 };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		EXPECT(!other_output_ucx(texts[i], &r));
	EXPECT(r.latency_ns == 1 && r.messages_per_s == 2);
}

TEST(test_other_output_pingpong_takes_the_time_of_a_transfer)
{
	struct other_result r;

	EXPECT(other_output_pingpong(pingpong_text, &r));
	EXPECT(r.latency_ns > 20339.9 && r.latency_ns < 20340.1);
	EXPECT(r.messages_per_s > 49164 && r.messages_per_s < 49165);
}

TEST(test_other_output_pingpong_takes_the_first_line)
{
	struct other_result r;

	EXPECT(other_output_pingpong("[error] util/pingpong.c:568 : 1 2 3 4 5 6 7 8\n"
				     "bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec\n"
				     "8\t20k\t=20k\t312k\t0.23s\t1.38\t5.80\t0.17\n"
				     "16\t20k\t=20k\t312k\t0.23s\t1.38\t6.80\t0.17",
				     &r));
	EXPECT(r.latency_ns > 5799.9 && r.latency_ns < 5800.1);
}

TEST(test_other_output_pingpong_without_numbers_changes_nothing)
{
	static const char *const texts[] = {
		"",
		"64k 2k =2k 250m 0.08s 3222.30 20.34 0.05\n",
		"bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec\n",
		"bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec\n8 1 =1 16 0.0s 0.03\n",
		"bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec\n8 1 =1 16 0.0s 0 0 0\n",
		"fi_getinfo(): util/pingpong.c:1489, ret=-61 (No data available)\n",
	};
	struct other_result r = { 1, 2 };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		EXPECT(!other_output_pingpong(texts[i], &r));
	EXPECT(r.latency_ns == 1 && r.messages_per_s == 2);
}

TEST(test_other_output_long_lines_are_cut)
{
	char text[4096];
	struct other_result r = { 1, 2 };

	memset(text, ',', sizeof(text));
	memcpy(text + sizeof(text) - sizeof(ucx_text), ucx_text, sizeof(ucx_text));
	/* The names of the columns are behind what is read of the line. */
	EXPECT(!other_output_ucx(text, &r));
	/* More columns than are read. */
	for (size_t i = 0; i < sizeof(text) - sizeof(ucx_text); i++)
		text[i] = "a,"[i % 2];
	EXPECT(!other_output_ucx(text, &r));
	/* The next line is read all the same. */
	text[sizeof(text) - sizeof(ucx_text) - 1] = '\n';
	EXPECT(other_output_ucx(text, &r));
	EXPECT_EQ(r.messages_per_s, 210526);
}

TEST(test_other_output_lines_of_any_length_are_read)
{
	char text[1024], line[1024];

	for (size_t length = 1; length < sizeof(text); length++) {
		memset(text, 'x', length);
		text[length] = '\0';
		other_output_last_line(text, line, sizeof(line));
		EXPECT_EQ(strlen(line), length < 511 ? length : 511);
	}
}

TEST(test_other_output_listening_is_known_by_port_and_state)
{
	EXPECT(other_output_is_listening(tcp_list, 0x3419));
	EXPECT(!other_output_is_listening(tcp_list, 0x3420));
	EXPECT(!other_output_is_listening(tcp_list, 0xa032));
	EXPECT(!other_output_is_listening(tcp_list, 0));
	EXPECT(other_output_is_listening(tcp6_list, 0xb9e8));
	EXPECT(!other_output_is_listening(tcp6_list, 0));
	EXPECT(!other_output_is_listening("", 0));
	EXPECT(!other_output_is_listening("   0: 0100007F:3419 00000000:0000", 0x3419));
}

TEST(test_other_output_last_line_is_the_last_with_words)
{
	char line[8];

	other_output_last_line("one\ntwo\n\n\r\n", line, sizeof(line));
	EXPECT_STR(line, "two");
	other_output_last_line("one\nfour five six", line, sizeof(line));
	EXPECT_STR(line, "four fi");
	other_output_last_line("", line, sizeof(line));
	EXPECT_STR(line, "");
}

static const char perftest_rate_text[] =
	" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
	" 65536      1000             3471.09            3384.06\t\t   0.054145\n";

static const char perftest_unended_text[] =
	" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
	" 65536      2000             999.47             370.83 \t\t   0.005933weft[7]: made by\n";

static const char perftest_latency_text[] =
	" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
	"t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
	" 8       1000          4.48           75.14        4.73     \t       4.84        \t"
	"2.39   \t\t5.35    \t\t\t75.14  \n";

TEST(test_other_output_perftest_takes_the_rate_or_the_average_latency)
{
	struct other_result r;

	EXPECT(other_output_perftest(perftest_rate_text, &r));
	EXPECT(r.messages_per_s > 54144.9 && r.messages_per_s < 54145.1);
	EXPECT_EQ(r.latency_ns, 0);
	EXPECT(other_output_perftest(perftest_unended_text, &r));
	EXPECT(r.messages_per_s > 5932.9 && r.messages_per_s < 5933.1);
	EXPECT(other_output_perftest(perftest_latency_text, &r));
	EXPECT(r.latency_ns > 4839.9 && r.latency_ns < 4840.1);
	EXPECT_EQ(r.messages_per_s, 0);
	EXPECT(!other_output_perftest(" Couldn't connect to 127.0.0.1:18515\n", &r));
}
