/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Directed remote I/O by the library: an I/O unit with a device in memory, an owner that says who
 * may use it, and a requester that writes and reads it. Here all three are in one process, over
 * loopback TCP; in a cluster each is a process of its own, with just these calls.
 *
 * The data goes straight between requester and I/O unit. What the owner carried is shown at the
 * end.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/rio.h>

enum { OWNER = 1, IOUNIT, REQUESTER, MIB = 1 << 20 };

static const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };
static const uint64_t second_ns = 1000000000;

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

/* Real secrets are random and known to one process only: weft key new. */
static void seed_of(int who, uint8_t seed[WEFT_RIO_KEY_BYTES])
{
	memset(seed, 0x11 * who, WEFT_RIO_KEY_BYTES);
}

static struct weft_rio_peer peer(int who, enum weft_rio_role role, const struct weft_address *at)
{
	struct weft_rio_peer p = { .platform = { (uint32_t)who, 1 }, .role = role };
	uint8_t seed[WEFT_RIO_KEY_BYTES];

	seed_of(who, seed);
	weft_rio_public_key(seed, p.key);
	if (at)
		p.address = *at;
	return p;
}

static struct weft_rio_self self(int who, const struct weft_rio_peer *peers, uint32_t count)
{
	struct weft_rio_self s = { .platform = { (uint32_t)who, 1 },
				   .listen = loopback,
				   .peers = peers,
				   .peer_count = count };

	seed_of(who, s.seed);
	return s;
}

static void *iounit_run(void *iounit)
{
	weft_rio_iounit_run(iounit);
	return NULL;
}

static void *owner_run(void *owner)
{
	weft_rio_owner_run(owner);
	return NULL;
}

static void note(void *context, const char *line)
{
	(void)context;
	printf("owner: %s\n", line);
}

static struct weft_rio_iounit *iounit_open(struct weft_address *at)
{
	const struct weft_rio_peer peers[] = { peer(OWNER, WEFT_RIO_OWNER, NULL) };
	const struct weft_rio_self me = self(IOUNIT, peers, 1);
	const struct weft_rio_store store = { .number = 1, .name = "disk", .text = "mem:64M" };
	const struct weft_rio_iounit_options options = { .stores = &store, .store_count = 1 };
	struct weft_rio_iounit *iounit;

	must(weft_rio_iounit_open(&me, &options, &iounit, NULL), "I/O unit");
	weft_rio_iounit_address(iounit, at);
	return iounit;
}

/* The requester may read and write the first half of the device. */
static struct weft_rio_owner *owner_open(const struct weft_address *iounit_at,
					 struct weft_address *at)
{
	const struct weft_rio_peer peers[] = { peer(IOUNIT, WEFT_RIO_IOUNIT, iounit_at),
					       peer(REQUESTER, WEFT_RIO_REQUESTER, NULL) };
	const struct weft_rio_self me = self(OWNER, peers, 2);
	const struct weft_rio_rule rule = { .requester = { REQUESTER, 1 },
					    .device = "disk",
					    .operations = 1 << WEFT_RIO_READ | 1 << WEFT_RIO_WRITE,
					    .length = 32 * MIB };
	const struct weft_rio_owner_options options = { .rules = &rule,
							.rule_count = 1,
							.note = note };
	struct weft_rio_owner *owner;

	must(weft_rio_owner_open(&me, &options, &owner), "owner");
	weft_rio_owner_address(owner, at);
	return owner;
}

/* One transaction: from or to two fragments of memory, which are no neighbours. */
static enum weft_reason move(struct weft_rio_requester *q, enum weft_rio_operation operation,
			     uint64_t offset, const struct weft_rio_sge fragments[2])
{
	struct weft_rio_device disk;
	struct weft_rio_transaction t = { .operation = operation,
					  .offset = offset,
					  .length = 2 * MIB,
					  .sges = fragments,
					  .sge_count = 2 };
	const struct weft_rio_request request = { .transactions = &t, .transaction_count = 1 };

	must(weft_rio_device_find(q, "disk", 10 * second_ns, &disk), "device");
	t.device = disk.number;
	return weft_rio_request_do(q, &request, NULL);
}

static void use(const struct weft_address *owner_at)
{
	static uint8_t memory[8 * MIB];
	const struct weft_rio_peer peers[] = { peer(OWNER, WEFT_RIO_OWNER, owner_at) };
	const struct weft_rio_self me = self(REQUESTER, peers, 1);
	struct weft_rio_requester *q;
	enum weft_reason denied;
	uint32_t tag;

	must(weft_rio_requester_open(&me, NULL, &q), "requester");
	must(weft_rio_memory_add(q, memory, sizeof(memory), &tag), "memory");
	for (int i = 0; i < 8 * MIB; i++)
		memory[i] = (uint8_t)(i * 7 / 5);
	must(move(q, WEFT_RIO_WRITE, 4 * MIB,
		  (struct weft_rio_sge[]){
			  { .memory = memory, .length = MIB, .tag = tag },
			  { .memory = memory + 3 * MIB, .length = MIB, .tag = tag } }),
	     "write");
	must(move(q, WEFT_RIO_READ, 4 * MIB,
		  (struct weft_rio_sge[]){
			  { .memory = memory + 5 * MIB, .length = MIB, .tag = tag },
			  { .memory = memory + 7 * MIB, .length = MIB, .tag = tag } }),
	     "read");
	if (memcmp(memory, memory + 5 * MIB, MIB) != 0 ||
	    memcmp(memory + 3 * MIB, memory + 7 * MIB, MIB) != 0)
		must(WEFT_R_BAD_ARGUMENT, "what was read is not what was written");
	denied = move(q, WEFT_RIO_WRITE, 40 * MIB,
		      (struct weft_rio_sge[]){ { .memory = memory, .length = MIB, .tag = tag },
					       { .memory = memory, .length = MIB, .tag = tag } });
	printf("written and read back: 2 MiB in two fragments each\n");
	printf("outside of what the rule allows: %s\n", weft_reason_name(denied));
	must(weft_rio_memory_remove(q, tag), "memory");
	weft_rio_requester_close(q);
}

int main(void)
{
	struct weft_address iounit_at, owner_at;
	struct weft_rio_iounit *iounit = iounit_open(&iounit_at);
	struct weft_rio_owner *owner = owner_open(&iounit_at, &owner_at);
	struct weft_rio_traffic by_owner, by_iounit;
	pthread_t threads[2];

	pthread_create(&threads[0], NULL, iounit_run, iounit);
	pthread_create(&threads[1], NULL, owner_run, owner);
	use(&owner_at);
	weft_rio_owner_stop(owner);
	weft_rio_iounit_stop(iounit);
	pthread_join(threads[1], NULL);
	pthread_join(threads[0], NULL);
	weft_rio_owner_traffic(owner, &by_owner);
	weft_rio_iounit_traffic(iounit, &by_iounit);
	printf("payload: the I/O unit carried %" PRIu64 " bytes in and %" PRIu64
	       " out, the owner %" PRIu64 "\n",
	       by_iounit.payload_in, by_iounit.payload_out,
	       by_owner.payload_in + by_owner.payload_out);
	weft_rio_owner_close(owner);
	weft_rio_iounit_close(iounit);
	return by_owner.payload_in + by_owner.payload_out == 0 ? 0 : 1;
}
