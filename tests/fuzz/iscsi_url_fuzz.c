/* SPDX-License-Identifier: BSD-2-Clause */
/* URLs from arbitrary characters: read within their limits, or refused within the text. */
#include <string.h>

#include "base/check.h"
#include "iscsi/initiator/url.h"

enum { INPUT_MAX = 4200 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct iscsi_url url;
	struct iscsi_url_complaint complaint;
	char text[INPUT_MAX];

	size = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	if (!iscsi_url_parse(text, &url, &complaint)) {
		CHECK(complaint.why && complaint.at <= strlen(text));
		CHECK(url.host[0] == '\0' && url.password[0] == '\0');
		return 0;
	}
	CHECK(strlen(url.host) > 0 && strlen(url.host) <= ISCSI_URL_HOST_MAX && url.port > 0);
	CHECK(strlen(url.user) <= CHAP_NAME_MAX && strlen(url.password) <= CHAP_SECRET_MAX);
	CHECK(strlen(url.target_user) <= CHAP_NAME_MAX &&
	      strlen(url.secrets) <= ISCSI_URL_PATH_MAX);
	CHECK(strlen(url.target.text) == url.target.length && url.lun <= ISCSI_URL_LUN_MAX);
	return 0;
}
