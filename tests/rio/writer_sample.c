/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of kill_test.py: writes numbered blocks to a directed device for as long as it is
 * let, whatever happens to owner and I/O unit, and says on its standard output
 *
 *	S SLOT VERSION		before it asks for a block to be written
 *	W SLOT VERSION		once a write without FUA was acknowledged
 *	A SLOT VERSION		once that block is durable: after a write with FUA, or after a
 *				flush that was asked for when the write had ended, unless another
 *				flush has failed since
 *	F SLOT VERSION REASON	when it could not be written, or the outcome is unknown
 *	idle			when it has stopped, and everything has ended
 *	fatal REASON		what must not happen
 *
 * It is told `stop`, `go` and `quit` on its standard input, one on a line.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/rio.h>

#include "base/prng.h"
#include "roles/rio_config.h"

enum {
	SECTOR = 512,
	BLOCK_SECTORS = 16,
	BLOCK = SECTOR * BLOCK_SECTORS,
	DEPTH = 12,
	PLAIN_MAX = 64,
	PLAIN_MANY = 6, /* then it is time for a flush */
	PIECES_MAX = 5,
	NS_PER_MS = 1000000
};

enum kind { KIND_FUA, KIND_PLAIN, KIND_FLUSH };

struct written {
	uint32_t slot;
	uint64_t version;
};

struct op {
	bool is_busy;
	enum kind kind;
	struct written is;
	uint8_t *bytes;
	/* A flush: what it makes durable. */
	struct written plain[PLAIN_MAX];
	uint32_t plain_count;
};

static struct weft_rio_requester *requester;
static struct weft_rio_device device;
static uint8_t memory[DEPTH][BLOCK];
static uint32_t memory_tag;
static struct op ops[DEPTH + 1]; /* the last one is for flushes */
static bool *is_slot_busy;
static uint32_t slot_count, under_way;
static uint64_t next_version;
static struct written plain[PLAIN_MAX]; /* written, and not durable yet */
static uint32_t plain_count;
static uint32_t again[2 * DEPTH], again_count; /* slots that are written next */
static struct prng prng;

static void say(const char *what, const struct written *w, const char *why)
{
	char line[128];
	int length = snprintf(line, sizeof(line), "%s %u %llu%s%s\n", what, w->slot,
			      (unsigned long long)w->version, *why ? " " : "", why);

	/* Unbuffered: the line must be out if the process is killed now. */
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		_exit(1);
}

static _Noreturn void fatal(enum weft_reason reason)
{
	printf("fatal %s\n", weft_reason_name(reason));
	exit(1);
}

/* ---- Asking --------------------------------------------------------------------------------- */

/* Every sector says what it is: any mixture of two versions can be told from either. */
static void fill(uint8_t *bytes, const struct written *w)
{
	for (uint32_t i = 0; i < BLOCK_SECTORS; i++) {
		uint32_t seed = w->slot * 2654435761U ^ (uint32_t)w->version * 40503U ^ i;
		char *sector = (char *)bytes + (size_t)i * SECTOR;
		int length = snprintf(sector, SECTOR, "weft %u %u %llu ", w->slot, i,
				      (unsigned long long)w->version);

		for (int k = length; k < SECTOR; k++)
			sector[k] = (char)((seed = seed * 1103515245U + 12345U) >> 16);
	}
}

static bool ask(struct op *op, const struct weft_rio_transaction *t)
{
	const struct weft_rio_request request = { .transactions = t,
						  .transaction_count = 1,
						  .context = op };
	enum weft_reason r = weft_rio_request_submit(requester, &request);

	if (r == WEFT_OK) {
		op->is_busy = true;
		under_way++;
		return true;
	}
	if (r != WEFT_R_RIO_OWNER_LEFT && r != WEFT_R_BUSY)
		fatal(r);
	return false;
}

/* In a few pieces, of odd lengths. */
static uint32_t cut(struct op *op, struct weft_rio_sge pieces[PIECES_MAX])
{
	uint32_t count = 0, at = 0;

	while (at < BLOCK) {
		uint32_t length = BLOCK - at;

		if (count + 1 < PIECES_MAX && prng_below(&prng, 2) == 0)
			length = 1 + prng_below(&prng, length);
		pieces[count++] = (struct weft_rio_sge){ .memory = op->bytes + at,
							 .length = length,
							 .tag = memory_tag };
		at += length;
	}
	return count;
}

/*
 * What could not be written is written anew at once: if something of the old write is still under
 * way anywhere, it must not be done after the new one.
 */
static uint32_t next_slot(void)
{
	uint32_t slot;

	if (again_count > 0 && !is_slot_busy[again[again_count - 1]])
		return again[--again_count];
	slot = prng_below(&prng, slot_count);
	while (is_slot_busy[slot])
		slot = (slot + 1) % slot_count;
	return slot;
}

static void ask_write(struct op *op)
{
	struct weft_rio_sge pieces[PIECES_MAX];
	struct weft_rio_transaction t = { .operation = WEFT_RIO_WRITE,
					  .device = device.number,
					  .length = BLOCK,
					  .sges = pieces };
	uint32_t slot = next_slot();

	op->is = (struct written){ slot, next_version++ };
	op->kind = prng_below(&prng, 2) == 0 || plain_count == PLAIN_MAX ? KIND_FUA : KIND_PLAIN;
	t.is_fua = op->kind == KIND_FUA;
	t.offset = (uint64_t)slot * BLOCK;
	t.sge_count = cut(op, pieces);
	fill(op->bytes, &op->is);
	say("S", &op->is, "");
	is_slot_busy[slot] = true;
	if (ask(op, &t))
		return;
	is_slot_busy[slot] = false;
	say("F", &op->is, "not_asked");
}

static void ask_flush(struct op *op)
{
	const struct weft_rio_transaction t = { .operation = WEFT_RIO_FLUSH,
						.device = device.number };

	op->kind = KIND_FLUSH;
	memcpy(op->plain, plain, sizeof(plain));
	op->plain_count = plain_count;
	if (ask(op, &t))
		plain_count = 0;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void ended_well(struct op *op)
{
	if (op->kind == KIND_FUA) {
		say("A", &op->is, "");
	} else if (op->kind == KIND_PLAIN) {
		say("W", &op->is, "");
		if (plain_count < PLAIN_MAX)
			plain[plain_count++] = op->is;
	}
	for (uint32_t i = 0; op->kind == KIND_FLUSH && i < op->plain_count; i++)
		say("A", &op->plain[i], "");
}

static void ended(const struct weft_rio_result *e)
{
	struct op *op = e->context;

	op->is_busy = false;
	under_way--;
	if (op->kind != KIND_FLUSH)
		is_slot_busy[op->is.slot] = false;
	if (e->reason == WEFT_OK) {
		ended_well(op);
		return;
	}
	/* What was not flushed may be gone, and only a flush that fails says so. */
	if (op->kind == KIND_FLUSH) {
		plain_count = 0;
		return;
	}
	say("F", &op->is, weft_reason_name(e->reason));
	if (again_count < 2 * DEPTH)
		again[again_count++] = op->is.slot;
}

/* True: something ended badly. */
static bool gather(uint64_t timeout_ms)
{
	struct weft_rio_result e[DEPTH + 1];
	uint32_t count;
	bool has_failed = false;

	if (weft_rio_request_wait(requester, timeout_ms * NS_PER_MS, e, DEPTH + 1, &count) !=
	    WEFT_OK)
		fatal(WEFT_R_BAD_ARGUMENT);
	for (uint32_t i = 0; i < count; i++) {
		has_failed |= e[i].reason != WEFT_OK;
		ended(&e[i]);
	}
	return has_failed;
}

/* ---- All of it ------------------------------------------------------------------------------ */

/* 's'top, 'g'o, 'q'uit; 0: nothing. */
static char notified(bool does_wait)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[16] = "";

	if (poll(&p, 1, does_wait ? -1 : 0) <= 0)
		return 0;
	if (read(STDIN_FILENO, line, sizeof(line) - 1) <= 0)
		return 'q';
	return line[0];
}

static void write_more(void)
{
	struct op *flush = &ops[DEPTH];

	if (!flush->is_busy && plain_count >= PLAIN_MANY)
		ask_flush(flush);
	for (uint32_t i = 0; i < DEPTH; i++) {
		if (!ops[i].is_busy)
			ask_write(&ops[i]);
	}
}

static void drain(void)
{
	while (under_way > 0)
		gather(1000);
	if (plain_count > 0)
		ask_flush(&ops[DEPTH]);
	while (under_way > 0)
		gather(1000);
}

static void run(void)
{
	char word;

	for (;;) {
		/* Offers change with the owner and the I/O unit. */
		if (weft_rio_device_find(requester, "disk", 20 * NS_PER_MS, &device) == WEFT_OK) {
			write_more();
			if (gather(20))
				gather(2);
		} else {
			gather(2);
		}
		word = notified(false);
		while (word == 's' || word == 'q') {
			drain();
			puts("idle");
			fflush(stdout);
			if (word == 'q')
				return;
			word = notified(true);
		}
	}
}

static void open_requester(const char *path)
{
	struct weft_rio_peer owner = { .role = WEFT_RIO_OWNER };
	struct weft_rio_self self = { .peers = &owner, .peer_count = 1 };
	char why[RIO_HOST_WHY];
	struct rio_host *host;
	enum weft_reason r;

	if (!rio_host_open(path, RIO_REQUESTER, &host, why)) {
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
	self.platform.unit = host->self.platform.unit;
	self.platform.process = host->self.platform.process;
	self.listen = host->listen;
	memcpy(self.seed, host->self.secret, sizeof(self.seed));
	owner.platform.unit = host->config->known[0].platform.unit;
	owner.platform.process = host->config->known[0].platform.process;
	memcpy(owner.key, host->config->known[0].key, sizeof(owner.key));
	owner.address = host->addresses[0];
	r = weft_rio_requester_open(&self, NULL, &requester);
	rio_host_close(host);
	if (r == WEFT_OK)
		r = weft_rio_memory_add(requester, memory, sizeof(memory), &memory_tag);
	if (r != WEFT_OK)
		fatal(r);
}

int main(int argc, char **argv)
{
	if (argc != 5) {
		fputs("usage: rio_writer FILE SLOTS SEED FIRST_VERSION\n", stderr);
		return 2;
	}
	slot_count = (uint32_t)atoi(argv[2]);
	prng.state = strtoull(argv[3], NULL, 10);
	next_version = strtoull(argv[4], NULL, 10);
	is_slot_busy = calloc(slot_count, sizeof(*is_slot_busy));
	if (!is_slot_busy || slot_count <= DEPTH)
		return 2;
	for (uint32_t i = 0; i < DEPTH; i++)
		ops[i].bytes = memory[i];
	open_requester(argv[1]);
	run();
	weft_rio_requester_close(requester);
	free(is_slot_busy);
	return 0;
}
