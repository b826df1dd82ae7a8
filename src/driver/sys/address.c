/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses as people write them. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { HOST_MAX = INET6_ADDRSTRLEN + IF_NAMESIZE + 1 };

static bool parse_port(const char *text, uint16_t *port)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return false;
	value = strtoul(text, &end, 10);
	if (*end != '\0' || value > UINT16_MAX)
		return false;
	*port = (uint16_t)value;
	return true;
}

static bool parse_v6(char *host, struct weft_address *a)
{
	char *zone = strchr(host, '%');

	a->family = 6;
	if (zone) {
		*zone++ = '\0';
		a->scope = if_nametoindex(zone);
		if (a->scope == 0 && parse_port(zone, &(uint16_t){ 0 }))
			a->scope = (uint32_t)strtoul(zone, NULL, 10);
		if (a->scope == 0)
			return false;
	}
	return inet_pton(AF_INET6, host, a->ip) == 1;
}

enum weft_reason weft_address_parse(const char *text, struct weft_address *address)
{
	struct weft_address a = { 0 };
	char host[HOST_MAX];
	const char *colon;
	size_t length;
	bool is_good;

	if (!text || !address)
		return WEFT_R_NULL_ARGUMENT;
	colon = strrchr(text, ':');
	if (!colon || !parse_port(colon + 1, &a.port))
		return WEFT_R_ADDRESS;
	length = (size_t)(colon - text);
	if (length >= sizeof(host))
		return WEFT_R_ADDRESS;
	memcpy(host, text, length);
	host[length] = '\0';
	if (length == 0) {
		is_good = true;
	} else if (host[0] == '[' && host[length - 1] == ']') {
		host[length - 1] = '\0';
		is_good = parse_v6(host + 1, &a);
	} else {
		a.family = 4;
		is_good = inet_pton(AF_INET, host, a.ip) == 1;
	}
	if (!is_good)
		return WEFT_R_ADDRESS;
	*address = a;
	return WEFT_OK;
}

void weft_address_text(const struct weft_address *a, char text[WEFT_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "", zone[IF_NAMESIZE + 1] = "";

	if (a->family != 0)
		inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->ip, host, sizeof(host));
	if (a->family == 6 && a->scope != 0) {
		zone[0] = '%';
		if (!if_indextoname(a->scope, zone + 1))
			snprintf(zone + 1, sizeof(zone) - 1, "%u", a->scope);
	}
	if (a->family == 6)
		snprintf(text, WEFT_ADDRESS_TEXT, "[%s%s]:%u", host, zone, a->port);
	else
		snprintf(text, WEFT_ADDRESS_TEXT, "%s:%u", host, a->port);
}
