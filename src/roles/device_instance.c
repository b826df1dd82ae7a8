/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/device_instance.h"

#include <fcntl.h>
#include <sodium/crypto_generichash_blake2b.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/check.h"
#include "driver/file/file_store.h"

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

/*
 * Hashes all files of the device and their places. False: one is missing, or has no stable
 * identity.
 */
static bool add_files(crypto_generichash_blake2b_state *hash, const struct device *d)
{
	const struct store_plan *plan = device_plan(d);

	for (uint32_t i = 0; i < plan->count; i++) {
		struct file_identity id;

		if (plan->nodes[i].kind != STORE_KIND_FILE)
			continue;
		if (!device_node(d, i) || !file_store_identity(device_node(d, i), &id))
			return false;
		(void)crypto_generichash_blake2b_update(hash, (const uint8_t *)&id, sizeof(id));
	}
	return true;
}

uint64_t device_instance(const struct device *d)
{
	crypto_generichash_blake2b_state hash;
	uint8_t bytes[crypto_generichash_blake2b_BYTES];
	uint64_t instance;
	bool lasts;

	(void)crypto_generichash_blake2b_init(&hash, NULL, 0, sizeof(bytes));
	lasts = device_store(d)->shape.outlives_process && add_boot(&hash) && add_files(&hash, d);
	(void)crypto_generichash_blake2b_final(&hash, bytes, sizeof(bytes));
	memcpy(&instance, bytes, sizeof(instance));
	return lasts && instance != 0 ? instance : random_instance();
}
