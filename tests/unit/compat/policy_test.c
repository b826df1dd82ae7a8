/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The strict policy: peers reach windows only. All devices of a process have the policy of the
 * first that was opened, so each test is a process of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>
#include <weft/weft_dv.h>

#include "test.h"
#include "unit/compat/qp_fixture.h"
#include "unit/compat/roce_fixture.h"

enum { WINDOW = 4096, REMOTE = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

static const struct weftdv_device_attr strict = { .is_strict = true };

static void in_child(void (*body)(void))
{
	pid_t pid = fork();
	int status = 0;

	REQUIRE(pid >= 0);
	if (pid == 0) {
		harness_in_child();
		body();
		exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The device of that name, opened so; NULL and errno. */
static struct ibv_context *open_named(const char *name, const struct weftdv_device_attr *attr)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;
	bool is_found = false;

	REQUIRE(list);
	for (int i = 0; i < count && !is_found; i++) {
		is_found = strcmp(ibv_get_device_name(list[i]), name) == 0;
		if (is_found)
			context = weftdv_device_open(list[i], attr);
	}
	ibv_free_device_list(list);
	REQUIRE(is_found);
	return context;
}

static uint32_t reason_of(struct ibv_qp *qp)
{
	uint32_t code = UINT32_MAX;

	REQUIRE(weftdv_qp_reason_code(qp, &code) == 0);
	return code;
}

static void open_is_refused(const struct weftdv_device_attr *attr, int error)
{
	errno = 0;
	EXPECT(!open_named("roce_lo", attr));
	EXPECT_EQ(errno, error);
}

/* ---- RoCE ----------------------------------------------------------------------------------- */

static void roce_write(struct roce *r, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_send_wr write = { .wr_id = 9, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_wc wc;

	write.wr.rdma.remote_addr = (uintptr_t)r->far.memory;
	write.wr.rdma.rkey = rkey;
	memset(r->near.memory, 0x5a, 64);
	EXPECT_EQ(roce_post(&r->near, &write, 0, 64), 0);
	wc = roce_wc(&r->near);
	EXPECT_STR(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

/* The peer writes through a window, and then by the key of the region below it. */
static void roce_reaches_windows_only(void)
{
	const unsigned int access = IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_MW_BIND;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct weftdv_bind bind = { .access = REMOTE, .length = WINDOW };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	mr = ibv_reg_mr(r.pd, r.far.memory, WINDOW, access);
	mw = ibv_alloc_mw(r.pd, IBV_MW_TYPE_1);
	REQUIRE(mr && mw);
	bind.lkey = mr->lkey;
	bind.addr = (uintptr_t)r.far.memory;
	bind.send_flags = IBV_SEND_SIGNALED;
	REQUIRE(weftdv_qp_post_bind(r.far.qp, mw, &bind) == 0);
	EXPECT_EQ(roce_wc(&r.far).status, IBV_WC_SUCCESS);
	roce_write(&r, mw->rkey, IBV_WC_SUCCESS);
	EXPECT_EQ(r.far.memory[63], 0x5a);
	memset(r.far.memory, 0, 64);
	roce_write(&r, mr->rkey, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(reason_of(r.far.qp), WEFT_R_TAG_REGION_REMOTE);
	EXPECT_EQ(r.far.memory[0], 0);
	EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	roce_free(&r);
}

static void strict_roce(void)
{
	struct ibv_context *context = open_named("roce_lo", &strict);

	REQUIRE(context);
	roce_reaches_windows_only(); /* by a device that ibv_open_device() opened */
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_iwarp_06b_weftdv_device_open_strict_roce)
{
	in_child(strict_roce);
}

/* ---- iWARP, with librdmacm ------------------------------------------------------------------ */

static void iwarp_reaches_windows_only(void)
{
	struct qp_pair p;

	qp_pair_make(&p, NULL);
	/* A message needs no window; what a Read is answered with does. */
	qp_post(&p.near, IBV_WR_RDMA_READ, 2, qp_sge(&p.near, 0, 8), qp_remote(&p.far, 0));
	EXPECT(qp_wc(p.near.qp->send_cq).status != IBV_WC_SUCCESS);
	EXPECT_EQ(reason_of(p.near.qp), WEFT_R_READ_SINK);
	qp_pair_free(&p);
	qp_pair_make(&p, NULL);
	memset(p.near.memory, 0x5a, 8);
	qp_post(&p.near, IBV_WR_RDMA_WRITE, 3, qp_sge(&p.near, 0, 8), qp_remote(&p.far, 0));
	(void)qp_wc(p.near.qp->send_cq); /* its bytes went out */
	cm_expect(p.cm.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(reason_of(p.far.qp), WEFT_R_TAG_REGION_REMOTE);
	EXPECT_EQ(p.far.memory[0], 0);
	qp_pair_free(&p);
}

static void strict_iwarp(void)
{
	struct ibv_context *context = open_named("iw_lo", &strict);

	REQUIRE(context);
	iwarp_reaches_windows_only();
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_iwarp_06b_iwarp_09b_weftdv_device_open_strict_iwarp)
{
	in_child(strict_iwarp);
}

/* ---- The user's wish ------------------------------------------------------------------------ */

static void wished_strict(void)
{
	REQUIRE(setenv("WEFT_POLICY", "strict", 1) == 0);
	roce_reaches_windows_only();
	iwarp_reaches_windows_only();
}

TEST(test_iwarp_06b_weft_policy_strict_holds_for_programs_that_know_nothing_of_it)
{
	in_child(wished_strict);
}

/* The stricter of the two counts. */
static void wished_open(void)
{
	const struct weftdv_device_attr open = { 0 };
	struct ibv_context *context;

	REQUIRE(setenv("WEFT_POLICY", "open", 1) == 0);
	strict_roce();
	REQUIRE(setenv("WEFT_POLICY", "strict", 1) == 0);
	context = open_named("roce_lo", &open);
	REQUIRE(context);
	roce_reaches_windows_only();
	EXPECT_EQ(ibv_close_device(context), 0);
}

TEST(test_weft_policy_makes_a_strict_program_no_laxer)
{
	in_child(wished_open);
}

/* A peer writes no memory of an I/O adapter, which says how few queue pairs it has. */
static void wished_io(void)
{
	struct ibv_device_attr attr;
	struct ibv_mr *mr;
	struct roce r;

	REQUIRE(setenv("WEFT_PROFILE", "io", 1) == 0);
	roce_make(&r, IBV_QPT_RC);
	REQUIRE(ibv_query_device(r.pd->context, &attr) == 0);
	EXPECT_EQ(attr.max_qp, 8);
	roce_connect(&r);
	mr = ibv_reg_mr(r.pd, r.far.memory, WINDOW, IBV_ACCESS_LOCAL_WRITE | REMOTE);
	REQUIRE(mr);
	roce_write(&r, mr->rkey, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(reason_of(r.far.qp), WEFT_R_QP_REMOTE_RIGHTS);
	EXPECT_EQ(r.far.memory[0], 0);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	roce_free(&r);
}

TEST(test_sys_04_peers_write_no_memory_of_an_io_adapter)
{
	in_child(wished_io);
}

static void wished_no_profile(void)
{
	const struct weftdv_device_attr open = { 0 };

	REQUIRE(setenv("WEFT_PROFILE", "IO", 1) == 0);
	open_is_refused(&open, EINVAL);
}

TEST(test_sys_04_weft_profile_that_is_none_opens_no_device)
{
	in_child(wished_no_profile);
}

static void wished_something(void)
{
	const struct weftdv_device_attr open = { 0 };

	REQUIRE(setenv("WEFT_POLICY", "Strict", 1) == 0);
	open_is_refused(&open, EINVAL);
	REQUIRE(setenv("WEFT_POLICY", "", 1) == 0);
	EXPECT_EQ(ibv_close_device(open_named("roce_lo", &open)), 0);
}

TEST(test_weft_policy_that_is_none_opens_no_device)
{
	in_child(wished_something);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

/* A process has one policy: the first device that it opens decides. */
static void first_device_decides(void)
{
	const struct weftdv_device_attr open = { 0 };
	struct ibv_context *first = open_named("iw_lo", &open), *second;

	REQUIRE(first);
	open_is_refused(&strict, EBUSY);
	second = open_named("roce_lo", &open);
	EXPECT(second);
	EXPECT_EQ(ibv_close_device(second), 0);
	EXPECT_EQ(ibv_close_device(first), 0);
	/* None is open: it may be another. */
	first = open_named("iw_lo", &strict);
	REQUIRE(first);
	roce_reaches_windows_only();
	EXPECT_EQ(ibv_close_device(first), 0);
}

TEST(test_weftdv_device_open_has_one_policy)
{
	in_child(first_device_decides);
}

TEST(test_weftdv_device_open_refusals)
{
	struct weftdv_device_attr attr = { .reserved = { 0, 0, 0, 1 } };
	struct ibv_device other = { .name = "roce_lo" };

	open_is_refused(&attr, EINVAL);
	open_is_refused(NULL, EINVAL);
	errno = 0;
	EXPECT(!weftdv_device_open(&other, &strict));
	EXPECT_EQ(errno, EOPNOTSUPP);
	errno = 0;
	EXPECT(!weftdv_device_open(NULL, &strict));
	EXPECT_EQ(errno, EOPNOTSUPP);
}
