/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/config_words.h"

#include "rio/names.h"

static const uint64_t second_ns = UINT64_C(1000000000), hour_ns = UINT64_C(3600000000000);

static bool read_platform(struct config_reader *r, const char *word, struct platform *platform)
{
	return rio_platform_read(word, platform) ||
	       config_complain(r, word, "a platform identifier is two whole numbers from 1: 7.1");
}

bool rio_config_self(struct config_reader *r, struct platform *platform)
{
	return read_platform(r, r->words[1], platform);
}

bool rio_config_name(struct config_reader *r, const char *word)
{
	return rio_name_is_good(word) ||
	       config_complain(r, word,
			       "a name is 1 to 64 letters, digits, - _ and . and is not any");
}

bool rio_config_known(struct config_reader *r, struct rio_known *known)
{
	return rio_config_name(r, r->words[1]) && read_platform(r, r->words[2], &known->platform) &&
	       (rio_key_read(r->words[3], known->key) ||
		config_complain(r, r->words[3],
				"a public key is 64 hexadecimal digits, as weft key shows them"));
}

bool rio_config_spin(struct config_reader *r, uint64_t *ns)
{
	return (quantity_time(config_word(r->words[1]), ns) && *ns <= second_ns) ||
	       config_complain(r, r->words[1],
			       "a time to spin is a whole number with us or ms, up to 1s");
}

bool rio_config_alive(struct config_reader *r, uint64_t *ns)
{
	return (quantity_time(config_word(r->words[1]), ns) && *ns >= second_ns &&
		*ns <= hour_ns) ||
	       config_complain(
		       r, r->words[1],
		       "a time of silence is a whole number with ms or s, from 1s to 3600s");
}
