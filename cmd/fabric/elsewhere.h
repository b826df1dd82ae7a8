/* SPDX-License-Identifier: BSD-2-Clause */
/* What commands say of a node that the fabric has refused. */
#pragma once

#include <weft/reason.h>

enum { ELSEWHERE_TEXT = 512 };

/*
 * Why a program or a command is not at a node: the reason's sentence and name; of a node in another
 * part of a fabric that is cut, which part that is and where it runs. Returns text.
 */
const char *elsewhere_text(const char *node, enum weft_reason reason, char text[ELSEWHERE_TEXT]);
