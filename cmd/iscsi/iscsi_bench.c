/* SPDX-License-Identifier: BSD-2-Clause */
/* weft iscsi bench: requests from registered memory, as many under way as were asked for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cmd/clock.h"
#include "cmd/iscsi/iscsi.h"
#include "cmd/iscsi/iscsi_move.h"
#include "cmd/iscsi/iscsi_user.h"

enum { BLOCK = 4096, DEPTH = 32, BATCH = 64, SECONDS_MAX = 86400 };

/* Latencies: 32 buckets for each power of two, so a figure is right to 3 per cent. */
enum { FINE_BITS = 5, FINE = 1 << FINE_BITS, BUCKETS = 64 * FINE };

static const uint64_t ns_per_s = 1000000000;

struct bench {
	struct iscsi_user user;
	uint64_t block, depth, duration_ns, offset, length;
	bool is_write, is_random;

	struct weft_iscsi_session *session;
	struct weft_iscsi_info info;
	uint8_t *memory;
	uint32_t tag;
	uint64_t *started_ns; /* of each slot */
	uint64_t next, dice;  /* where the next request goes */
	uint32_t under_way;
	/* What came out. */
	enum weft_reason reason;
	char why[WEFT_ISCSI_TEXT_MAX];
	uint64_t count, sum_ns, elapsed_ns, cpu_ns;
	uint64_t latencies[BUCKETS];
};

/* ---- Figures -------------------------------------------------------------------------------- */

static uint32_t bucket_of(uint64_t ns)
{
	uint32_t bits = 63 - (uint32_t)__builtin_clzll(ns | FINE);

	return (bits - FINE_BITS) * FINE + (uint32_t)(ns >> (bits - FINE_BITS));
}

/* The lowest value of a bucket. */
static uint64_t bucket_ns(uint32_t bucket)
{
	uint32_t shift = bucket / FINE;

	return shift == 0 ? bucket : (uint64_t)(bucket % FINE + FINE) << (shift - 1);
}

static double percentile_us(const struct bench *b, double part)
{
	uint64_t wanted = (uint64_t)((double)b->count * part), seen = 0;

	for (uint32_t i = 0; i < BUCKETS; i++) {
		seen += b->latencies[i];
		if (seen > wanted)
			return (double)bucket_ns(i) / 1e3;
	}
	return 0;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * ns_per_s + (uint64_t)t.tv_nsec;
}

static void show(const struct bench *b)
{
	double seconds = (double)b->elapsed_ns / 1e9, each = b->count ? (double)b->count : 1;
	double rate = (double)b->count / seconds, cpu = (double)b->cpu_ns / (double)b->elapsed_ns;
	double bytes = rate * (double)b->block;

	if (b->user.is_json)
		printf("{\"op\":\"%s\",\"random\":%s,\"block\":%" PRIu64 ",\"depth\":%" PRIu64
		       ",\"seconds\":%.3f,\"requests\":%" PRIu64 ",\"iops\":%.0f"
		       ",\"mb_per_s\":%.1f,\"mean_us\":%.1f,\"median_us\":%.1f,\"p99_us\":%.1f"
		       ",\"p999_us\":%.1f,\"cpu\":%.3f,\"cpu_us_per_request\":%.2f}\n",
		       b->is_write ? "write" : "read", b->is_random ? "true" : "false", b->block,
		       b->depth, seconds, b->count, rate, bytes / 1e6,
		       (double)b->sum_ns / each / 1e3, percentile_us(b, 0.5),
		       percentile_us(b, 0.99), percentile_us(b, 0.999), cpu,
		       (double)b->cpu_ns / each / 1e3);
	else
		printf("%s %s, %" PRIu64 " bytes, depth %" PRIu64 ": %.0f requests/s, %.1f MB/s\n"
		       "latency %.1f us (median %.1f, 99 %% %.1f, 99.9 %% %.1f)\n"
		       "CPU of this end: %.0f %% of a processor, %.2f us a request\n",
		       b->is_random ? "random" : "sequential", b->is_write ? "write" : "read",
		       b->block, b->depth, rate, bytes / 1e6, (double)b->sum_ns / each / 1e3,
		       percentile_us(b, 0.5), percentile_us(b, 0.99), percentile_us(b, 0.999),
		       cpu * 100, (double)b->cpu_ns / each / 1e3);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static uint64_t next_offset(struct bench *b)
{
	uint64_t blocks = b->length / b->block, nth = b->next++ % blocks;

	if (b->is_random) {
		/* xorshift: which ones does not matter, only that they are all over the range. */
		b->dice ^= b->dice << 13;
		b->dice ^= b->dice >> 7;
		b->dice ^= b->dice << 17;
		nth = b->dice % blocks;
	}
	return b->offset + nth * b->block;
}

static void submit(struct bench *b, uint64_t slot)
{
	const struct weft_sge segment = { .addr = (uintptr_t)(b->memory + slot * b->block),
					  .length = (uint32_t)b->block,
					  .tag = b->tag };
	const struct weft_iscsi_request q = {
		.operation = b->is_write ? WEFT_ISCSI_WRITE : WEFT_ISCSI_READ,
		.offset = next_offset(b),
		.length = b->block,
		.sges = &segment,
		.sge_count = 1,
		.context = &b->started_ns[slot],
	};
	enum weft_reason r;

	b->started_ns[slot] = clock_ns();
	r = weft_iscsi_request_submit(b->session, &q);
	if (r == WEFT_OK)
		b->under_way++;
	else if (b->reason == WEFT_OK)
		b->reason = r;
}

static void take(struct bench *b, const struct weft_iscsi_result *e, uint64_t now_ns,
		 uint64_t end_ns)
{
	uint64_t *started_ns = e->context, took_ns = now_ns - *started_ns;

	b->under_way--;
	if (e->reason != WEFT_OK && b->reason == WEFT_OK) {
		b->reason = e->reason;
		weft_iscsi_result_text(e, b->why);
	}
	b->count++;
	b->sum_ns += took_ns;
	b->latencies[bucket_of(took_ns)]++;
	if (now_ns < end_ns && b->reason == WEFT_OK)
		submit(b, (uint64_t)(started_ns - b->started_ns));
}

/* What is under way ends, whatever has happened: it uses the memory. */
static void run(struct bench *b)
{
	static struct weft_iscsi_result ended[BATCH];
	uint64_t begun_ns = clock_ns(), used_ns = cpu_ns();

	for (uint64_t i = 0; i < b->depth && b->reason == WEFT_OK; i++)
		submit(b, i);
	while (b->under_way > 0) {
		uint32_t count = 0;
		enum weft_reason r = weft_iscsi_request_wait(b->session, ns_per_s, ended, BATCH,
							     &count);
		uint64_t now_ns = clock_ns();

		if (r != WEFT_OK && b->reason == WEFT_OK)
			b->reason = r;
		for (uint32_t i = 0; i < count; i++)
			take(b, &ended[i], now_ns, begun_ns + b->duration_ns);
	}
	b->elapsed_ns = clock_ns() - begun_ns;
	b->cpu_ns = cpu_ns() - used_ns;
}

/* ---- The command ---------------------------------------------------------------------------- */

static bool say(const char *what)
{
	fprintf(stderr, "weft iscsi: %s\n", what);
	return false;
}

static bool range_check(struct bench *b)
{
	if (b->block % b->info.block_bytes != 0 || b->offset % b->info.block_bytes != 0)
		return say("--block and --offset must be multiples of the unit's blocks: see weft "
			   "iscsi info");
	if (b->offset > b->info.size_bytes ||
	    (b->length > 0 && b->length > b->info.size_bytes - b->offset))
		return say("--offset and --length go beyond the end of the unit");
	if (b->length == 0)
		b->length = b->info.size_bytes - b->offset;
	if (b->length < b->block)
		return say("the range is smaller than a block");
	return !b->is_write || !b->info.is_readonly || say("the unit is read-only");
}

static enum weft_reason memory_take(struct bench *b)
{
	size_t bytes = (size_t)(b->block * b->depth);
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	b->started_ns = calloc(b->depth, sizeof(*b->started_ns));
	if (memory == MAP_FAILED || !b->started_ns)
		return WEFT_R_NO_MEMORY;
	b->memory = memory;
	return weft_iscsi_memory_add(b->session, memory, bytes, &b->tag);
}

static int bench(struct bench *b, const char *url)
{
	char plain[ISCSI_USER_URL];

	b->user.options.requests_max = (uint32_t)b->depth;
	b->session = iscsi_user_open(&b->user, url);
	if (!b->session)
		return 1;
	b->reason = weft_iscsi_session_query(b->session, &b->info);
	if (b->reason == WEFT_OK && !range_check(b)) {
		weft_iscsi_session_close(b->session);
		return 1;
	}
	if (b->reason == WEFT_OK)
		b->reason = memory_take(b);
	if (b->reason == WEFT_OK)
		run(b);
	if (b->tag)
		(void)weft_iscsi_memory_remove(b->session, b->tag);
	weft_iscsi_session_close(b->session);
	if (b->reason != WEFT_OK)
		return iscsi_user_fail(iscsi_user_plain(url, plain), b->reason, b->why);
	show(b);
	return 0;
}

/* "2", "0.5": so many seconds. */
static bool take_seconds(struct word text, uint64_t *ns)
{
	char *end;
	double s = strtod(text.at, &end);

	if (end == text.at || *end || !(s >= 0.001 && s <= SECONDS_MAX))
		return false;
	*ns = (uint64_t)(s * 1e9);
	return true;
}

int iscsi_bench(int argc, char **argv)
{
	static struct bench b = { .block = BLOCK, .depth = DEPTH };
	const struct cmd_option own[] = {
		{ "offset", .read = quantity_size, .to = &b.offset },
		{ "length", .read = quantity_size, .to = &b.length },
		{ "block", .read = quantity_size, .to = &b.block },
		{ "depth", .read = quantity_number, .to = &b.depth },
		{ "seconds", .read = take_seconds, .to = &b.duration_ns },
		{ "write", .is_given = &b.is_write },
		{ "random", .is_given = &b.is_random },
		{ 0 },
	};
	const char *url;
	int status;

	b.duration_ns = 2 * ns_per_s;
	b.dice = 88172645463325252U;
	if (!iscsi_user_init(&b.user, argc, argv, own, &status))
		return status;
	if (!iscsi_user_words(argc, argv, &url, 1))
		return cmd_options_wrong(iscsi_help);
	if (b.block == 0 || b.block > MOVE_BLOCK_MAX || b.depth == 0 || b.depth > MOVE_DEPTH_MAX) {
		(void)say("--block is 1 to 64M, --depth 1 to 1024");
		return 2;
	}
	return bench(&b, url);
}
