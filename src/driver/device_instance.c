/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/device_instance.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium/crypto_generichash_blake2b.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "store/plan.h"

static const char boot_id_path[] = "/proc/sys/kernel/random/boot_id";

static uint64_t random_instance(void)
{
	uint64_t instance = 0;

	while (instance == 0)
		CHECK(getrandom(&instance, sizeof(instance), 0) == sizeof(instance));
	return instance;
}

static bool add_boot(crypto_generichash_blake2b_state *hash)
{
	uint8_t id[64];
	int fd = open(boot_id_path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof(id));

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	(void)crypto_generichash_blake2b_update(hash, id, (unsigned long long)n);
	return true;
}

/* Which file or block device it is, by whatever name. */
static bool add_file(crypto_generichash_blake2b_state *hash, const struct store_node *n)
{
	uint64_t identity[2];
	char path[PATH_MAX];
	struct stat st;

	if (n->path_length >= sizeof(path))
		return false;
	snprintf(path, sizeof(path), "%.*s", (int)n->path_length, n->path);
	if (stat(path, &st) < 0)
		return false;
	identity[0] = S_ISBLK(st.st_mode) ? UINT64_MAX : (uint64_t)st.st_dev;
	identity[1] = S_ISBLK(st.st_mode) ? (uint64_t)st.st_rdev : (uint64_t)st.st_ino;
	(void)crypto_generichash_blake2b_update(hash, (const uint8_t *)identity, sizeof(identity));
	return true;
}

/* False: it keeps something that goes with the process, or may. */
static bool add_node(crypto_generichash_blake2b_state *hash, const struct store_node *n)
{
	switch (n->kind) {
	case STORE_KIND_FILE:
		return add_file(hash, n);
	case STORE_KIND_STRIPE:
	case STORE_KIND_MIRROR:
	case STORE_KIND_DELAY:
	case STORE_KIND_FAULT:
		return true;
	default:
		return false;
	}
}

uint64_t device_instance(const char *text)
{
	crypto_generichash_blake2b_state hash;
	struct store_complaint complaint;
	struct store_plan plan;
	uint8_t bytes[crypto_generichash_blake2b_BYTES];
	uint64_t instance;
	bool lasts = store_plan_read(&plan, text, &complaint);

	(void)crypto_generichash_blake2b_init(&hash, NULL, 0, sizeof(bytes));
	lasts = lasts && add_boot(&hash);
	for (uint32_t i = 0; lasts && i < plan.count; i++)
		lasts = add_node(&hash, &plan.nodes[i]);
	(void)crypto_generichash_blake2b_final(&hash, bytes, sizeof(bytes));
	memcpy(&instance, bytes, sizeof(instance));
	return lasts && instance != 0 ? instance : random_instance();
}
