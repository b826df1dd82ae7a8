// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded beside a sanitizer's runtime, so that qemu's tools live with it. (gcc 12.) Never
 * instrumented itself.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdlib.h>

char *swift_demangle(const char *name);

static void (*libc_siglongjmp)(sigjmp_buf, int);

/*
 * The address sanitizer starts with the first malloc. In qemu that is newlocale(), called by a
 * constructor of libp11-kit with the lock of all locales held. While starting, the sanitizer
 * looks for this function; if there is none it asks dlerror(), which translates what it says
 * under the same lock and so releases it. newlocale() then releases it once more, and
 * freelocale() at the end of the program waits for ever. So there is one, and it knows no
 * name.
 */
char *swift_demangle(const char *name)
{
	(void)name;
	return NULL;
}

/*
 * qemu's coroutines change stacks by siglongjmp(). The thread sanitizer has its own, which ends the
 * program ("can't find longjmp buf") if the buffer is not of the stack it jumps from. All that it
 * does besides is to forget the calls that are left; of those that it knows, weft's, none is.
 */
void siglongjmp(sigjmp_buf to, int value)
{
	libc_siglongjmp(to, value);
	abort();
}

__attribute__((constructor)) static void libc_find(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	if (libc == NULL)
		abort();
	*(void **)&libc_siglongjmp = dlsym(libc, "siglongjmp");
}
