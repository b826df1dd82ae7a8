/* SPDX-License-Identifier: BSD-2-Clause */
/* docs/rio.md, "What a write promises", rule 4: by what number a device is known again. */
#include <stdio.h>
#include <unistd.h>

#include "roles/device_instance.h"
#include "test.h"
#include "unit/driver/store_run.h"

enum { TEXT = 400 };

static char folder[64];

static struct device *opened(const char *text)
{
	struct device_refusal why;
	struct device *d = NULL;

	REQUIRE(device_open(text, &d, &why) == WEFT_OK);
	return d;
}

/* Of a device that is opened, and closed again. */
static uint64_t instance_of(const char *text)
{
	struct device *d = opened(text);
	uint64_t instance = device_instance(d);

	device_close(d);
	REQUIRE(instance != 0);
	return instance;
}

/* F and G are files in the folder. */
static void text_of(const char *form, char text[TEXT])
{
	size_t n = 0;

	for (; *form && n < TEXT - 80; form++) {
		if (*form == 'F' || *form == 'G')
			n += (size_t)snprintf(text + n, TEXT - n, "file:%s/%c,size=64k", folder,
					      *form);
		else
			text[n++] = *form;
	}
	text[n] = '\0';
}

TEST(test_rio_05_what_outlives_the_process_is_known_again)
{
	static const struct {
		const char *form;
		bool lasts;
	} rows[] = { { "F", true },
		     { "F,direct", true },
		     { "stripe:4k(F,G)", true },
		     { "delay:1ms(fault:error=0(F))", true },
		     { "mem:64k", false },
		     { "stripe:4k(F,mem:64k)", false },
		     { "volatile(F)", false } };
	char text[TEXT];

	store_folder_make_on_disk(folder);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		text_of(rows[i].form, text);
		EXPECT_EQ(instance_of(text) == instance_of(text), rows[i].lasts);
	}
	store_folder_remove(folder);
}

TEST(test_rio_05_other_files_or_another_order_are_another_device)
{
	char one[TEXT], other[TEXT];

	store_folder_make_on_disk(folder);
	text_of("F", one);
	text_of("G", other);
	EXPECT(instance_of(one) != instance_of(other));
	text_of("stripe:4k(F,G)", one);
	text_of("stripe:4k(G,F)", other);
	EXPECT(instance_of(one) != instance_of(other));
	store_folder_remove(folder);
}

/* A file that has come under the name meanwhile is not the one that is open. */
TEST(test_rio_05_the_file_counts_that_is_open)
{
	char text[TEXT], from[100], to[100];
	uint64_t before, other;
	struct device *d;

	store_folder_make_on_disk(folder);
	snprintf(from, sizeof(from), "%s/G", folder);
	snprintf(to, sizeof(to), "%s/F", folder);
	text_of("G", text);
	other = instance_of(text);
	text_of("F", text);
	before = instance_of(text);
	d = opened(text);
	REQUIRE(rename(from, to) == 0);
	EXPECT_EQ(device_instance(d), before);
	device_close(d);
	EXPECT_EQ(instance_of(text), other);
	store_folder_remove(folder);
}
