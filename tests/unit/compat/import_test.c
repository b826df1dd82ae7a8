/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_import_device(3) and those that follow it: one process, two contexts, the same objects. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"

enum { BYTES = 4096, ROUNDS = 20000 };

static uint8_t memory[BYTES];

struct two {
	struct ibv_context *own, *imported;
	struct ibv_pd *pd, *imported_pd;
	struct ibv_mr *mr;
};

static void two_make(struct two *t)
{
	t->own = loop_context();
	REQUIRE(t->own);
	t->pd = ibv_alloc_pd(t->own);
	t->mr = ibv_reg_mr(t->pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(t->pd && t->mr);
	t->imported = ibv_import_device(dup(t->own->cmd_fd));
	REQUIRE(t->imported);
	t->imported_pd = ibv_import_pd(t->imported, t->pd->handle);
	REQUIRE(t->imported_pd);
}

static void two_close(struct two *t)
{
	EXPECT_EQ(ibv_close_device(t->imported), 0);
	EXPECT_EQ(ibv_close_device(t->own), 0);
}

TEST(test_ibv_import_pd_is_the_owners_domain)
{
	struct ibv_mr *mine;
	struct two t;

	two_make(&t);
	EXPECT(t.imported->device == t.own->device);
	EXPECT(t.imported_pd->context == t.imported);
	EXPECT_EQ(t.imported_pd->handle, t.pd->handle);
	mine = ibv_reg_mr(t.imported_pd, memory, BYTES, 0);
	REQUIRE(mine);
	EXPECT_EQ(ibv_dereg_mr(t.mr), 0);
	/* The PD stays while it is imported, and the import while an MR made with it exists. */
	EXPECT_EQ(ibv_dealloc_pd(t.pd), EBUSY);
	EXPECT_EQ(ibv_dealloc_pd(t.imported_pd), EBUSY);
	ibv_unimport_pd(t.imported_pd);
	EXPECT_EQ(ibv_dealloc_pd(t.pd), EBUSY);
	EXPECT_EQ(ibv_dereg_mr(mine), 0);
	EXPECT_EQ(ibv_dealloc_pd(t.pd), 0);
	two_close(&t);
}

TEST(test_ibv_import_mr_has_the_owners_keys)
{
	struct ibv_mr *imported, *again;
	struct two t;

	two_make(&t);
	imported = ibv_import_mr(t.imported_pd, t.mr->handle);
	again = ibv_import_mr(t.imported_pd, t.mr->handle);
	REQUIRE(imported && again);
	EXPECT(imported->lkey == t.mr->lkey && imported->rkey == t.mr->rkey);
	EXPECT(imported->length == BYTES && !imported->addr);
	EXPECT(imported->pd == t.imported_pd && imported->context == t.imported);
	ibv_unimport_mr(again);
	/* Deregistration by one process holds for all: only the structs are left. */
	EXPECT_EQ(ibv_dereg_mr(imported), 0);
	EXPECT(ibv_dereg_mr(t.mr) != 0);
	ibv_unimport_mr(t.mr);
	ibv_unimport_pd(t.imported_pd);
	EXPECT_EQ(ibv_dealloc_pd(t.pd), 0);
	two_close(&t);
}

TEST(test_ibv_import_dm_is_the_owners_memory)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	uint64_t word = 0x1122334455667788, found = 0;
	struct ibv_dm *dm, *imported;
	struct ibv_mr *mr;
	struct two t;

	two_make(&t);
	dm = ibv_alloc_dm(t.own, &attr);
	REQUIRE(dm);
	imported = ibv_import_dm(t.imported, dm->handle);
	REQUIRE(imported);
	EXPECT_EQ(ibv_memcpy_to_dm(dm, 8, &word, sizeof(word)), 0);
	EXPECT_EQ(ibv_memcpy_from_dm(&found, imported, 8, sizeof(found)), 0);
	EXPECT_EQ(found, word);
	mr = ibv_reg_dm_mr(t.imported_pd, imported, 0, 64, IBV_ACCESS_ZERO_BASED);
	REQUIRE(mr);
	ibv_unimport_dm(imported);
	EXPECT_EQ(ibv_free_dm(dm), EBUSY);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_EQ(ibv_free_dm(dm), 0);
	EXPECT_EQ(ibv_dereg_mr(t.mr), 0);
	EXPECT_EQ(ibv_dealloc_pd(t.imported_pd), 0);
	EXPECT_EQ(ibv_dealloc_pd(t.pd), 0);
	two_close(&t);
}

TEST(test_ibv_import_of_what_is_not_there_is_refused)
{
	struct ibv_context *other = loop_context();
	struct ibv_pd *pd = ibv_alloc_pd(other), *second;
	int fd = eventfd(0, EFD_CLOEXEC);
	struct two t;

	REQUIRE(other && pd && fd >= 0);
	two_make(&t);
	errno = 0;
	EXPECT(!ibv_import_device(fd));
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT(!ibv_import_device(-1));
	EXPECT_EQ(errno, EOPNOTSUPP);
	/* Of another context than the one that was imported from. */
	EXPECT(!ibv_import_pd(t.imported, pd->handle));
	EXPECT_EQ(errno, ENOENT);
	EXPECT(!ibv_import_dm(t.imported, t.pd->handle));
	EXPECT_EQ(errno, ENOENT);
	EXPECT(!ibv_import_mr(t.imported_pd, t.mr->handle + 1));
	EXPECT_EQ(errno, ENOENT);
	second = ibv_alloc_pd(t.own);
	REQUIRE(second);
	EXPECT(!ibv_import_mr(second, t.mr->handle));
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(ibv_dealloc_pd(second), 0);
	EXPECT_EQ(ibv_dereg_mr(t.mr), 0);
	EXPECT_EQ(ibv_dealloc_pd(t.imported_pd), 0);
	EXPECT_EQ(ibv_dealloc_pd(t.pd), 0);
	two_close(&t);
	EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	EXPECT_EQ(ibv_close_device(other), 0);
	close(fd);
}

/* Another thread imports what the owner is about to give back. */
struct importer {
	struct ibv_context *context;
	pthread_t thread;
	_Atomic uint32_t handle; /* 0: that is all */
	_Atomic uint32_t has;	 /* it stays until this is something else */
};

static void *import_domains(void *arg)
{
	struct importer *m = arg;
	uint32_t handle;

	while ((handle = atomic_load(&m->handle)) != 0) {
		struct ibv_pd *pd = ibv_import_pd(m->context, handle);

		if (!pd)
			continue;
		atomic_store(&m->has, handle);
		sched_yield();
		atomic_store(&m->has, 0);
		ibv_unimport_pd(pd);
	}
	return NULL;
}

static void *import_memories(void *arg)
{
	struct importer *m = arg;
	uint32_t handle;

	while ((handle = atomic_load(&m->handle)) != 0) {
		struct ibv_dm *dm = ibv_import_dm(m->context, handle);

		if (!dm)
			continue;
		atomic_store(&m->has, handle);
		sched_yield();
		atomic_store(&m->has, 0);
		ibv_unimport_dm(dm);
	}
	return NULL;
}

static void importer_begin(struct importer *m, struct two *t, void *(*imports)(void *))
{
	m->context = t->imported;
	atomic_store(&m->handle, UINT32_MAX);
	REQUIRE(pthread_create(&m->thread, NULL, imports, m) == 0);
}

static void importer_end(struct importer *m, struct two *t)
{
	atomic_store(&m->handle, 0);
	REQUIRE(pthread_join(m->thread, NULL) == 0);
	EXPECT_EQ(ibv_dereg_mr(t->mr), 0);
	EXPECT_EQ(ibv_dealloc_pd(t->imported_pd), 0);
	EXPECT_EQ(ibv_dealloc_pd(t->pd), 0);
	two_close(t);
}

TEST(test_ibv_import_pd_while_it_is_given_back_has_it_or_nothing)
{
	struct importer m = { 0 };
	struct two t;

	two_make(&t);
	importer_begin(&m, &t, import_domains);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_pd *pd = ibv_alloc_pd(t.own);
		uint32_t handle;
		int error;

		REQUIRE(pd);
		handle = pd->handle;
		atomic_store(&m.handle, handle);
		while ((error = ibv_dealloc_pd(pd)) == EBUSY)
			sched_yield();
		REQUIRE(error == 0);
		EXPECT(atomic_load(&m.has) != handle);
	}
	importer_end(&m, &t);
}

TEST(test_ibv_import_dm_while_it_is_given_back_has_it_or_nothing)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct importer m = { 0 };
	struct two t;

	two_make(&t);
	importer_begin(&m, &t, import_memories);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_dm *dm = ibv_alloc_dm(t.own, &attr);
		uint32_t handle;
		int error;

		REQUIRE(dm);
		handle = dm->handle;
		atomic_store(&m.handle, handle);
		while ((error = ibv_free_dm(dm)) == EBUSY)
			sched_yield();
		REQUIRE(error == 0);
		EXPECT(atomic_load(&m.has) != handle);
	}
	importer_end(&m, &t);
}

/* The objects are the parent's, and not to be had from here. */
TEST(test_ibv_import_device_of_the_parent_is_refused_in_a_child)
{
	struct ibv_context *own = loop_context();
	int status;
	pid_t pid;

	REQUIRE(own);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(!ibv_import_device(own->cmd_fd) && errno == EOPNOTSUPP ? 0 : 1);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EXPECT_EQ(ibv_close_device(own), 0);
}
