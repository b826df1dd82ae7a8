/* SPDX-License-Identifier: BSD-2-Clause */
#include "conformance_sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEDS_DEFAULT = 12 };

/* The run that is going on. */
static uint64_t seed, pairs_opened;
static char how_to_repeat[128];

/* ---- Seeds ---------------------------------------------------------------------------------- */

/* WEFT_CONFORMANCE_SEEDS: how many from 0 on. WEFT_SEEDS=FIRST:COUNT, or one seed: just these. */
static void seeds_asked(uint64_t *first, uint64_t *count)
{
	const char *text = getenv("WEFT_SEEDS"), *many = getenv("WEFT_CONFORMANCE_SEEDS");

	*first = 0;
	*count = many ? strtoull(many, NULL, 10) : SEEDS_DEFAULT;
	if (text && sscanf(text, "%" SCNu64 ":%" SCNu64, first, count) == 1)
		*count = 1;
}

/* A run that dies says which it was. */
static void say_seed(void)
{
	(void)!write(STDERR_FILENO, how_to_repeat, strlen(how_to_repeat));
	(void)!write(STDERR_FILENO, "\n", 1);
}

static void died(int signal_number)
{
	say_seed();
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

/* Of the sanitizers, if there are any. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void prepare(void)
{
	signal(SIGABRT, died);
	signal(SIGTERM, died);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(say_seed);
	else
		signal(SIGSEGV, died);
}

/*
 * The nth seed that failed once and is not among the first count. What failed was a rule, never an
 * access to memory: with a sanitizer, where they take longer than all others, they are left out.
 */
static const uint64_t *failed_once(uint64_t nth, uint64_t count)
{
	for (uint64_t i = 0; i < sim_kind.failed_once_count && !IS_SANITIZED; i++) {
		if (sim_kind.failed_once[i] >= count && nth-- == 0)
			return &sim_kind.failed_once[i];
	}
	return NULL;
}

const char *harness_round(uint64_t round)
{
	uint64_t first, count;
	const uint64_t *again;

	seeds_asked(&first, &count);
	if (round == 0)
		prepare();
	if (round < count)
		seed = first + round;
	else if (first == 0 && (again = failed_once(round - count, count)))
		seed = *again;
	else
		return NULL;
	pairs_opened = 0;
	if (sim_kind.begin)
		sim_kind.begin();
	snprintf(how_to_repeat, sizeof(how_to_repeat), "repeat with WEFT_SEEDS=%" PRIu64 ":1",
		 seed);
	return how_to_repeat;
}

uint64_t sim_seed(void)
{
	return seed;
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

struct prng sim_pair_prng(void)
{
	return (struct prng){ .state = seed + (++pairs_opened << 48) };
}

/* The tags too are those of the seed. */
void sim_adapter_open(struct pair *p, struct weft_adapter **adapter, struct prng *r)
{
	const struct adapter_config config = {
		.options = { .tags_max = p->options.tags_max ? p->options.tags_max : PAIR_TAGS_MAX,
			     .translations_max = p->options.translations_max
							 ? p->options.translations_max
							 : PAIR_TRANSLATIONS_MAX,
			     .srqs_max = 64,
			     .pds_max = 64,
			     .policy = p->options.policy },
		.secret = { prng_next(r), prng_next(r) },
	};

	MUST(weft_adapter_open(&config.options, adapter));
	MUST(adapter_fini(&(*adapter)->core));
	MUST(adapter_init(&(*adapter)->core, &config));
}

void sim_move(struct pair *p, int who)
{
	uint32_t count;

	for (int i = 0; i < 2; i++) {
		if (who < 0 || who == i)
			MUST(weft_cq_poll(p->ends[i].send_cq, NULL, 0, &count));
	}
}

void sim_settle_by(struct pair *p, bool (*is_flowing)(const struct weft_qp *qp))
{
	uint64_t since = pair_maker.now_ns(p);
	const struct pair_end *a = &p->ends[0], *b = &p->ends[1];

	while ((a->qp && is_flowing(a->qp)) || (b->qp && is_flowing(b->qp)))
		REQUIRE(pair_wait(p, since));
}

/* ---- The simulation itself ------------------------------------------------------------------ */

/* Some traffic both ways; gives what the world did. */
static uint64_t run_once(uint64_t with)
{
	struct pair p;
	struct weft_sge s;
	struct weft_send_wr wr;
	uint64_t hash;

	seed = with;
	pairs_opened = 0;
	pair_open(&p, NULL);
	for (int i = 0; i < 4; i++) {
		struct pair_end *e = &p.ends[i % 2];

		s = end_seg(e, SRC, sim_kind.request_bytes);
		wr = end_wr(e, i < 2 ? WEFT_OP_WRITE : WEFT_OP_READ, 1, &s, DST);
		end_succeeds(e, &wr);
	}
	hash = sim_kind.hash(&p);
	pair_close(&p);
	return hash;
}

TEST(test_sim_the_same_seed_is_the_same_run)
{
	uint64_t was = seed, hash = run_once(was);

	EXPECT_EQ(run_once(was), hash);
	EXPECT(run_once(was + 1) != hash);
}
