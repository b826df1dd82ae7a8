/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of MPI that looks at every byte it gets: from one to another, collectives, one-sided.
 * ucx_cases.py compiles it.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 4 << 20, COUNT = 5000, ROUNDS = 20 };

static int me, all;

/* Ends all ranks if it does not hold. */
static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "rank %d: wrong: %s\n", me, what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *room_for(size_t bytes)
{
	void *room = calloc(1, bytes);

	must(room != NULL, "memory");
	return room;
}

/* Bytes that tell who sent them, and which message it was. */
static uint8_t byte_of(int rank, int salt, int i)
{
	return (uint8_t)(rank * 31 + salt * 7 + i + (i >> 8) * 3 + (i >> 16) * 5);
}

static void fill(uint8_t *to, int bytes, int rank, int salt)
{
	for (int i = 0; i < bytes; i++)
		to[i] = byte_of(rank, salt, i);
}

static int is_filled(const uint8_t *bytes, int count, int rank, int salt)
{
	for (int i = 0; i < count; i++) {
		if (bytes[i] != byte_of(rank, salt, i))
			return 0;
	}
	return 1;
}

/* ---- From one to another -------------------------------------------------------------------- */

static const int sizes[] = { 0,	   1,	  7,	 8,	64,    1023,	1024,	       4099,
			     8192, 16385, 65536, 65537, 99991, 1 << 20, BYTES_MAX - 1, BYTES_MAX };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Round the ring, both at once. */
static void pass_on(uint8_t *out, uint8_t *in)
{
	int next = (me + 1) % all, last = (me + all - 1) % all, count;
	MPI_Request requests[2];
	MPI_Status states[2];

	for (int i = 0; i < SIZES; i++) {
		fill(out, sizes[i], me, i);
		memset(in, 0xee, (size_t)sizes[i] + 1);
		MPI_Irecv(in, sizes[i], MPI_BYTE, last, i, MPI_COMM_WORLD, &requests[0]);
		MPI_Isend(out, sizes[i], MPI_BYTE, next, i, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitall(2, requests, states);
		MPI_Get_count(&states[0], MPI_BYTE, &count);
		must(count == sizes[i] && states[0].MPI_SOURCE == last, "who sent how much");
		must(is_filled(in, count, last, i) && in[count] == 0xee, "what was sent");
	}
}

/* Messages that come before their receive, from any rank; those of one rank in their order. */
static void take_unexpected(uint8_t *out, uint8_t *in)
{
	int seen[64] = { 0 };

	must(all <= 64, "64 ranks at most");
	MPI_Barrier(MPI_COMM_WORLD);
	if (me != 0) {
		for (int i = 0; i < SIZES - 3; i++) {
			fill(out, sizes[i], me, i);
			MPI_Send(out, sizes[i], MPI_BYTE, 0, 99, MPI_COMM_WORLD);
		}
		fill(out, 100, me, 77);
		MPI_Ssend(out, 100, MPI_BYTE, 0, 77, MPI_COMM_WORLD);
		return;
	}
	for (int left = (all - 1) * (SIZES - 3); left > 0; left--) {
		MPI_Status s;
		int from, i;

		MPI_Recv(in, BYTES_MAX, MPI_BYTE, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &s);
		from = s.MPI_SOURCE;
		i = seen[from]++;
		must(i < SIZES && is_filled(in, sizes[i], from, i), "unexpected messages");
	}
	for (int from = 1; from < all; from++) {
		MPI_Recv(in, 100, MPI_BYTE, from, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		must(is_filled(in, 100, from, 77), "a synchronous message");
	}
}

static void test_messages(void)
{
	uint8_t *out = room_for(BYTES_MAX + 1), *in = room_for(BYTES_MAX + 1);

	pass_on(out, in);
	take_unexpected(out, in);
	free(out);
	free(in);
}

/* ---- Collectives ---------------------------------------------------------------------------- */

static void test_broadcast(void)
{
	uint8_t *bytes = room_for(1 << 20);

	for (int root = 0; root < all; root++) {
		for (int size = 1; size <= 1 << 20; size <<= 5) {
			if (me == root)
				fill(bytes, size, root, size);
			MPI_Bcast(bytes, size, MPI_BYTE, root, MPI_COMM_WORLD);
			must(is_filled(bytes, size, root, size), "broadcast");
		}
	}
	free(bytes);
}

static void test_reduce(void)
{
	int64_t *mine = room_for(COUNT * sizeof(*mine)), *sum = room_for(COUNT * sizeof(*sum));
	int64_t ranks = (int64_t)all * (all - 1) / 2;

	for (int i = 0; i < COUNT; i++)
		mine[i] = (int64_t)me * 1000003 + i;
	MPI_Allreduce(mine, sum, COUNT, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < COUNT; i++)
		must(sum[i] == ranks * 1000003 + (int64_t)all * i, "allreduce, sum");
	MPI_Allreduce(mine, sum, COUNT, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
	for (int i = 0; i < COUNT; i++)
		must(sum[i] == (int64_t)(all - 1) * 1000003 + i, "allreduce, greatest");
	free(mine);
	free(sum);
}

static void test_all_to_all(void)
{
	for (int size = 1; size <= 100000; size = size * 10 + 1) {
		uint8_t *out = room_for((size_t)all * (size_t)size);
		uint8_t *in = room_for((size_t)all * (size_t)size);

		for (int to = 0; to < all; to++)
			fill(out + (size_t)to * (size_t)size, size, me, to);
		MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
		for (int from = 0; from < all; from++)
			must(is_filled(in + (size_t)from * (size_t)size, size, from, me),
			     "alltoall");
		free(out);
		free(in);
	}
}

/* ---- One-sided ------------------------------------------------------------------------------ */

/* Each writes into its stripe of everyone, then reads it back, and adds to the last one. */
static void test_fence(void)
{
	MPI_Aint bytes = (MPI_Aint)(all + 1) * COUNT * (MPI_Aint)sizeof(int64_t);
	int64_t *memory, mine[COUNT], got[COUNT];
	MPI_Win window;

	MPI_Win_allocate(bytes, sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	memset(memory, 0, (size_t)bytes);
	for (int i = 0; i < COUNT; i++)
		mine[i] = (int64_t)me << 32 | i;
	MPI_Win_fence(0, window);
	for (int to = 0; to < all; to++)
		MPI_Put(mine, COUNT, MPI_INT64_T, to, (MPI_Aint)me * COUNT, COUNT, MPI_INT64_T,
			window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < all * COUNT; i++)
		must(memory[i] == ((int64_t)(i / COUNT) << 32 | (i % COUNT)), "put");
	for (int from = 0; from < all; from++) {
		MPI_Get(got, COUNT, MPI_INT64_T, from, (MPI_Aint)((me + 1) % all) * COUNT, COUNT,
			MPI_INT64_T, window);
		MPI_Win_fence(0, window);
		for (int i = 0; i < COUNT; i++)
			must(got[i] == ((int64_t)((me + 1) % all) << 32 | i), "get");
	}
	for (int to = 0; to < all; to++)
		MPI_Accumulate(mine, COUNT, MPI_INT64_T, to, (MPI_Aint)all * COUNT, COUNT,
			       MPI_INT64_T, MPI_SUM, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < COUNT; i++)
		must(memory[all * COUNT + i] ==
			     ((int64_t)all * (all - 1) / 2 << 32) + (int64_t)all * i,
		     "accumulate");
	MPI_Win_free(&window);
}

/* Everyone counts in rank 0's memory, at the same time, in three ways. */
static void count_up(MPI_Win window)
{
	int64_t one = 1, before, had, value;

	for (int i = 0; i < ROUNDS; i++) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
		MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, window);
		MPI_Win_unlock(0, window);
		must(before >= i && before < (int64_t)all * ROUNDS, "fetch and add");

		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
		MPI_Get(&value, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, window);
		MPI_Win_flush(0, window);
		value++;
		MPI_Put(&value, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, window);
		MPI_Win_unlock(0, window);

		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
		had = 0;
		do { /* until no other rank came in between */
			before = had;
			value = before + 1;
			MPI_Compare_and_swap(&value, &before, &had, MPI_INT64_T, 0, 2, window);
			MPI_Win_flush(0, window);
		} while (had != before);
		MPI_Win_unlock(0, window);
	}
}

static void test_lock(void)
{
	int64_t memory[3] = { 0 };
	MPI_Win window;

	MPI_Win_create(memory, sizeof(memory), sizeof(memory[0]), MPI_INFO_NULL, MPI_COMM_WORLD,
		       &window);
	MPI_Barrier(MPI_COMM_WORLD);
	count_up(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, me, 0, window);
	for (int i = 0; i < 3; i++)
		must(memory[i] == (me == 0 ? (int64_t)all * ROUNDS : 0), "what all have counted");
	MPI_Win_unlock(me, window);
	MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} tests[] = {
		{ "messages", test_messages }, { "broadcast", test_broadcast },
		{ "reduce", test_reduce },     { "alltoall", test_all_to_all },
		{ "fence", test_fence },       { "lock", test_lock },
	};

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		tests[i].test();
		MPI_Barrier(MPI_COMM_WORLD);
		if (me == 0)
			printf("%s: all %d ranks have what they should\n", tests[i].name, all);
	}
	MPI_Finalize();
	return 0;
}
