/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The test harness. A test program is one or more files of
 *
 *	TEST(test_ring_wraps)
 *	{
 *		EXPECT_EQ(ring_len(&r), 3);
 *	}
 *
 * linked with test_main.c, which runs them in the order written and prints one line for each:
 * `ok NAME`, `not ok NAME: why` or `skip NAME: reason`. Run by hand it takes parts of names as
 * arguments and runs only the tests that contain one.
 *
 * A program may define harness_round(): then every test is run once for each round, until one
 * fails.
 *
 * EXPECT...() and SKIP() end the function they stand in, so they belong in the test itself or in a
 * void function. REQUIRE() ends the whole test from any function that runs on the test's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#define IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define IS_SANITIZED 0
#endif
/*
 * How many random histories a test runs: all where no sanitizer is. The sanitizers take ten times
 * as long and find their kind of fault in fewer.
 */
#define HISTORIES(count) ((count) / (IS_SANITIZED ? 4 : 1))

struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};

#define TEST(test_name)                                                                            \
	static void test_name(void);                                                               \
	__attribute__((constructor)) static void test_name##_register(void)                        \
	{                                                                                          \
		static struct test test = { .name = #test_name, .run = test_name };                \
		harness_register(&test);                                                           \
	}                                                                                          \
	static void test_name(void)

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!harness_true(__FILE__, __LINE__, #cond, (cond)))                              \
			return;                                                                    \
	} while (0)

/* Integers and enums; a and b are compared as values of 64 bits. */
#define EXPECT_EQ(a, b)                                                                            \
	do {                                                                                       \
		if (!harness_equal(__FILE__, __LINE__, #a " == " #b, (intmax_t)(a),                \
				   (intmax_t)(b)))                                                 \
			return;                                                                    \
	} while (0)

#define EXPECT_STR(a, b)                                                                           \
	do {                                                                                       \
		if (!harness_equal_str(__FILE__, __LINE__, (a), (b)))                              \
			return;                                                                    \
	} while (0)

#define EXPECT_MEM(a, b, len)                                                                      \
	do {                                                                                       \
		if (!harness_equal_mem(__FILE__, __LINE__, (a), (b), (len)))                       \
			return;                                                                    \
	} while (0)

#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!harness_true(__FILE__, __LINE__, #cond, (cond)))                              \
			harness_leave();                                                           \
	} while (0)

/* REQUIRE() that shows both values; and of a call of weft, that it goes well. */
#define MUST_EQ(a, b)                                                                              \
	do {                                                                                       \
		if (!harness_equal(__FILE__, __LINE__, #a " == " #b, (intmax_t)(a),                \
				   (intmax_t)(b)))                                                 \
			harness_leave();                                                           \
	} while (0)
#define MUST(call) MUST_EQ(call, WEFT_OK)

#define SKIP(reason)                                                                               \
	do {                                                                                       \
		harness_skip(reason);                                                              \
		return;                                                                            \
	} while (0)

/*
 * Called before each run of a test with 0, 1 and so on: makes that round's world. NULL: there is no
 * such round. Else words that help the reader of a failure.
 */
const char *harness_round(uint64_t round) __attribute__((weak));

/* For the macros above. The comparisons return false, and note the first failure, if it fails. */
void harness_register(struct test *test);
bool harness_true(const char *file, int line, const char *expr, bool is_true);
bool harness_equal(const char *file, int line, const char *expr, intmax_t a, intmax_t b);
bool harness_equal_str(const char *file, int line, const char *a, const char *b);
bool harness_equal_mem(const char *file, int line, const void *a, const void *b, size_t len);
void harness_skip(const char *reason);

/*
 * For what makes worlds in a loop of its own, before each: MALLOC_PERTURB_, which fills memory when
 * it is allocated and freed, holds in one round of HARNESS_PERTURBED. Worlds allocate far more than
 * they use, so filling takes longer than they do. Rounds of harness_round() have it too.
 */
enum { HARNESS_PERTURBED = 16 };
void harness_perturb(uint64_t round);

/*
 * Where files of tests go that need no disk: into memory if the host has such a file system, since
 * a sync may take minutes on a disk that others keep busy. TMPDIR overrides.
 */
const char *harness_folder(void);

/* Words that help the reader of the next failure of this test, which this thread finds. */
void harness_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* In the child of a fork(): what fails there is said at once, and ends it with 1. */
void harness_in_child(void);
_Noreturn void harness_leave(void);
