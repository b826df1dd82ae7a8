/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/etcd.h"

#include <ctype.h>
#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>
#include <sodium/utils.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rio/names.h"

enum {
	TIMEOUT_MS = 2000,
	ANSWER_MAX = 4 << 20, /* far more than the addresses of a large cluster */
	KEY_MAX = 256,
	BASE64_MAX = 512,
	TERM_TRIES = 16,
	HTTP_OK = 200,
};

struct etcd {
	CURL *curl;
	struct curl_slist *headers;
	char *url, *prefix;
	char trouble[CURL_ERROR_SIZE];
	/* The answer so far. */
	char *answer;
	size_t answer_bytes;
};

__attribute__((format(printf, 2, 3))) static bool refuse(char why[ETCD_WHY], const char *form, ...)
{
	va_list args;

	va_start(args, form);
	vsnprintf(why, ETCD_WHY, form, args);
	va_end(args);
	return false;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode once_result;

static void init_once(void)
{
	once_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take_answer(char *bytes, size_t size, size_t count, void *context)
{
	struct etcd *e = context;
	size_t length = size * count;
	char *more;

	if (length > ANSWER_MAX - e->answer_bytes)
		return 0;
	more = realloc(e->answer, e->answer_bytes + length + 1);
	if (!more)
		return 0;
	memcpy(more + e->answer_bytes, bytes, length);
	e->answer = more;
	e->answer_bytes += length;
	return length;
}

static bool set_options(struct etcd *e, const struct etcd_config *config)
{
	long timeout_ms = config->timeout_ms ? (long)config->timeout_ms : TIMEOUT_MS;
	CURL *c = e->curl;

	/* Ignore proxies of the environment: they are for hosts outside the cluster. */
	return curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_PROXY, "") == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_HTTPHEADER, e->headers) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_ERRORBUFFER, e->trouble) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_answer) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_WRITEDATA, e) == CURLE_OK &&
	       (!config->ca_path ||
		curl_easy_setopt(c, CURLOPT_CAINFO, config->ca_path) == CURLE_OK);
}

bool etcd_open(const struct etcd_config *config, struct etcd **out, char why[ETCD_WHY])
{
	struct etcd *e = calloc(1, sizeof(*e));
	size_t length = strlen(config->url);

	(void)pthread_once(&once, init_once);
	if (!e || once_result != CURLE_OK) {
		free(e);
		return refuse(why, "etcd: libcurl cannot be used here");
	}
	while (length > 0 && config->url[length - 1] == '/')
		length--;
	e->curl = curl_easy_init();
	e->headers = curl_slist_append(NULL, "Content-Type: application/json");
	e->url = strndup(config->url, length);
	e->prefix = strdup(config->prefix);
	if (!e->curl || !e->headers || !e->url || !e->prefix || !set_options(e, config)) {
		etcd_close(e);
		return refuse(why, "etcd: libcurl cannot be used here");
	}
	*out = e;
	return true;
}

void etcd_close(struct etcd *e)
{
	if (e->curl)
		curl_easy_cleanup(e->curl);
	curl_slist_free_all(e->headers);
	free(e->answer);
	free(e->url);
	free(e->prefix);
	free(e);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/* The server's text may be printed on a terminal. */
static void make_printable(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || (unsigned char)*text >= 0x7f)
			*text = '?';
	}
}

static bool refuse_status(struct etcd *e, long status, json_t *answer, char why[ETCD_WHY])
{
	/* etcd 3.4 has both, 3.5 only the message. */
	const char *said = json_string_value(json_object_get(answer, "message"));

	if (!said)
		said = json_string_value(json_object_get(answer, "error"));

	refuse(why, "etcd at %s answers %ld: %.200s", e->url, status, said ? said : "no reason");
	make_printable(why);
	return false;
}

static bool post(struct etcd *e, const char *path, const char *body, long *status,
		 char why[ETCD_WHY])
{
	char url[ETCD_WHY];
	CURLcode code;

	if ((size_t)snprintf(url, sizeof(url), "%s/v3/%s", e->url, path) >= sizeof(url))
		return refuse(why, "etcd: this URL is too long");
	e->answer_bytes = 0;
	e->trouble[0] = '\0';
	if (curl_easy_setopt(e->curl, CURLOPT_URL, url) != CURLE_OK ||
	    curl_easy_setopt(e->curl, CURLOPT_POSTFIELDS, body) != CURLE_OK)
		return refuse(why, "etcd: there is no memory");
	code = curl_easy_perform(e->curl);
	if (code != CURLE_OK) {
		refuse(why, "etcd at %s: %s", e->url,
		       e->trouble[0] ? e->trouble : curl_easy_strerror(code));
		make_printable(why);
		return false;
	}
	return curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, status) == CURLE_OK ||
	       refuse(why, "etcd at %s: there is no answer", e->url);
}

/* Consumes the question. True: the caller owns the answer. */
static bool call(struct etcd *e, const char *path, json_t *own_question, json_t **answer,
		 char why[ETCD_WHY])
{
	char *body = own_question ? json_dumps(own_question, JSON_COMPACT) : NULL;
	bool is_posted;
	long status = 0;

	json_decref(own_question);
	if (!body)
		return refuse(why, "etcd: there is no memory");
	is_posted = post(e, path, body, &status, why);
	free(body);
	if (!is_posted)
		return false;
	*answer = json_loadb(e->answer ? e->answer : "", e->answer_bytes, JSON_REJECT_DUPLICATES,
			     NULL);
	if (status == HTTP_OK && json_is_object(*answer))
		return true;
	if (status != HTTP_OK)
		refuse_status(e, status, *answer, why);
	else
		refuse(why, "etcd at %s: the answer is not etcd's", e->url);
	json_decref(*answer);
	return false;
}

/* A call whose answer carries nothing but success. */
static bool call_blind(struct etcd *e, const char *path, json_t *own_question, char why[ETCD_WHY])
{
	json_t *answer;

	if (!call(e, path, own_question, &answer, why))
		return false;
	json_decref(answer);
	return true;
}

/* etcd sends 64-bit numbers as strings. */
static int64_t number_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? strtoll(text, NULL, 10) : 0;
}

static json_t *text_of(int64_t number)
{
	return json_sprintf("%lld", (long long)number);
}

static json_t *base64_of(const char *text)
{
	char digits[BASE64_MAX];
	size_t length = strlen(text);

	if (sodium_base64_ENCODED_LEN(length, sodium_base64_VARIANT_ORIGINAL) > sizeof(digits))
		return NULL;
	sodium_bin2base64(digits, sizeof(digits), (const unsigned char *)text, length,
			  sodium_base64_VARIANT_ORIGINAL);
	return json_string(digits);
}

/* NUL-terminated. False: absent, too long, or with a NUL inside. */
static bool read_base64(const json_t *object, const char *name, char *text, size_t size)
{
	const char *digits = json_string_value(json_object_get(object, name));
	size_t length;

	if (!digits || sodium_base642bin((unsigned char *)text, size - 1, digits, strlen(digits),
					 NULL, &length, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
		return false;
	text[length] = '\0';
	return strlen(text) == length;
}

/* ---- Addresses ------------------------------------------------------------------------------ */

/* False: the key is not a platform's; ignore it. */
static bool platform_of(const struct etcd *e, const json_t *entry, struct platform *platform)
{
	char key[KEY_MAX];
	size_t prefix = strlen(e->prefix);

	return read_base64(entry, "key", key, sizeof(key)) &&
	       strncmp(key, e->prefix, prefix) == 0 && rio_platform_read(key + prefix, platform);
}

static bool address_of(const json_t *entry, struct weft_address *address)
{
	char text[KEY_MAX];

	return read_base64(entry, "value", text, sizeof(text)) &&
	       weft_address_parse(text, address) == WEFT_OK && address->family != 0 &&
	       address->port != 0;
}

/* The platforms to look up, all distinct. */
struct search {
	const struct platform *who;
	uint32_t count;
	struct weft_address *addresses;
};

static void take_entry(const struct etcd *e, const json_t *entry, const struct search *search,
		       char why[ETCD_WHY])
{
	struct platform platform;
	uint32_t n = 0;

	if (!platform_of(e, entry, &platform))
		return;
	while (n < search->count && !platform_is_same(search->who[n], platform))
		n++;
	if (n < search->count && !address_of(entry, &search->addresses[n])) {
		search->addresses[n] = (struct weft_address){ 0 };
		refuse(why, "etcd at %s: what is at %s%u.%u is not an address", e->url, e->prefix,
		       platform.unit, platform.process);
	}
}

bool etcd_find(struct etcd *e, const struct platform *who, uint32_t count,
	       struct weft_address *addresses, char why[ETCD_WHY])
{
	struct search search = { who, count, addresses };
	char end[KEY_MAX];
	json_t *answer, *entry;
	size_t i;

	/* The range of all keys with the prefix: it ends past the prefix's last / */
	if ((size_t)snprintf(end, sizeof(end), "%s", e->prefix) >= sizeof(end))
		return refuse(why, "etcd: this prefix is too long");
	end[strlen(end) - 1]++;
	if (!call(e, "kv/range",
		  json_pack("{so, so}", "key", base64_of(e->prefix), "range_end", base64_of(end)),
		  &answer, why))
		return false;
	why[0] = '\0';
	memset(addresses, 0, count * sizeof(*addresses));
	json_array_foreach(json_object_get(answer, "kvs"), i, entry)
		take_entry(e, entry, &search, why);
	json_decref(answer);
	return true;
}

bool etcd_put(struct etcd *e, struct platform who, const struct weft_address *address,
	      int64_t lease, char why[ETCD_WHY])
{
	char platform[RIO_PLATFORM_TEXT], key[KEY_MAX], text[WEFT_ADDRESS_TEXT];

	rio_platform_write(who, platform);
	weft_address_text(address, text);
	if ((size_t)snprintf(key, sizeof(key), "%s%s", e->prefix, platform) >= sizeof(key))
		return refuse(why, "etcd: this prefix is too long");
	return call_blind(e, "kv/put",
			  json_pack("{so, so, so}", "key", base64_of(key), "value", base64_of(text),
				    "lease", text_of(lease)),
			  why);
}

/* ---- Leases --------------------------------------------------------------------------------- */

bool etcd_grant(struct etcd *e, uint32_t seconds, int64_t *lease, char why[ETCD_WHY])
{
	json_t *answer;

	if (!call(e, "lease/grant", json_pack("{so}", "TTL", text_of(seconds)), &answer, why))
		return false;
	*lease = number_of(answer, "ID");
	json_decref(answer);
	return *lease != 0 || refuse(why, "etcd at %s: the answer is not etcd's", e->url);
}

bool etcd_keep(struct etcd *e, int64_t lease, char why[ETCD_WHY])
{
	json_t *answer;
	int64_t seconds;

	if (!call(e, "lease/keepalive", json_pack("{so}", "ID", text_of(lease)), &answer, why))
		return false;
	seconds = number_of(json_object_get(answer, "result"), "TTL");
	json_decref(answer);
	return seconds > 0 || refuse(why, "etcd at %s: the lease has expired", e->url);
}

bool etcd_revoke(struct etcd *e, int64_t lease, char why[ETCD_WHY])
{
	return call_blind(e, "lease/revoke", json_pack("{so}", "ID", text_of(lease)), why);
}

/* ---- Terms ---------------------------------------------------------------------------------- */

/* A writer to etcd must not be able to exhaust the terms. In nanoseconds, this is the year 2116. */
static const uint64_t term_most = UINT64_C(1) << 62;

static bool term_of(const json_t *entry, uint64_t *term)
{
	char text[KEY_MAX], *end;

	if (!read_base64(entry, "value", text, sizeof(text)) || !isdigit((unsigned char)text[0]))
		return false;
	*term = strtoull(text, &end, 10);
	return *end == '\0' && *term <= term_most;
}

/* What etcd has: the highest term, 0 if none was given, and the key's revision. */
struct kept {
	uint64_t term;
	int64_t revision;
};

static bool term_read(struct etcd *e, const char *key, struct kept *kept, char why[ETCD_WHY])
{
	json_t *answer, *entry;
	bool is_good = true;

	*kept = (struct kept){ 0 };
	if (!call(e, "kv/range", json_pack("{so}", "key", base64_of(key)), &answer, why))
		return false;
	entry = json_array_get(json_object_get(answer, "kvs"), 0);
	if (entry) {
		kept->revision = number_of(entry, "mod_revision");
		is_good = term_of(entry, &kept->term);
	}
	json_decref(answer);
	return is_good || refuse(why, "etcd at %s: what is at %s is not a term", e->url, key);
}

/*
 * Writes only if the revision is unchanged. has_written false: the key has changed since it was
 * read.
 */
static bool term_write(struct etcd *e, const char *key, const struct kept *next, bool *has_written,
		       char why[ETCD_WHY])
{
	char text[KEY_MAX];
	json_t *answer;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)next->term);
	*has_written = false;
	if (!call(e, "kv/txn",
		  json_pack("{s[{so, ss, so}], s[{s{so, so}}]}", "compare", "key", base64_of(key),
			    "target", "MOD", "mod_revision", text_of(next->revision), "success",
			    "request_put", "key", base64_of(key), "value", base64_of(text)),
		  &answer, why))
		return false;
	*has_written = json_is_true(json_object_get(answer, "succeeded"));
	json_decref(answer);
	return true;
}

bool etcd_term(struct etcd *e, struct platform who, uint64_t least, uint64_t *term,
	       char why[ETCD_WHY])
{
	char platform[RIO_PLATFORM_TEXT], key[KEY_MAX];
	bool has_written = false;

	rio_platform_write(who, platform);
	if ((size_t)snprintf(key, sizeof(key), "%s%s/term", e->prefix, platform) >= sizeof(key))
		return refuse(why, "etcd: this prefix is too long");
	for (int i = 0; i < TERM_TRIES && !has_written; i++) {
		struct kept kept;

		if (!term_read(e, key, &kept, why))
			return false;
		kept.term = kept.term < least ? least : kept.term + 1;
		if (!term_write(e, key, &kept, &has_written, why))
			return false;
		*term = kept.term;
	}
	return has_written ||
	       refuse(why, "etcd at %s: %s changes faster than it is read", e->url, key);
}
