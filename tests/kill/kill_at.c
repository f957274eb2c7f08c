/* Kills the program at its n-th sync, or at its n-th write to a file.
 *
 * Loaded with LD_PRELOAD by tests/tests/program/support/kill.rs:
 *   KILL_ON=sync|write  what is counted: fsync and fdatasync, or pwrite
 *   KILL_AT=N           SIGKILL instead of the N-th call; 0 only counts
 *   KILL_COUNT=FILE     where a program that ends by itself leaves the count
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { SYNC, WRITE };

static enum kind counted = SYNC;
static long kill_at;
static atomic_long calls;

__attribute__((constructor)) static void configure(void)
{
	const char *on = getenv("KILL_ON");
	const char *at = getenv("KILL_AT");
	if (on && strcmp(on, "write") == 0)
		counted = WRITE;
	if (at)
		kill_at = atol(at);
}

__attribute__((destructor)) static void report(void)
{
	const char *file = getenv("KILL_COUNT");
	char text[32];
	int length = snprintf(text, sizeof text, "%ld", atomic_load(&calls));
	int fd = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
	if (fd >= 0) {
		if (write(fd, text, (size_t)length) != length)
			abort();
		close(fd);
	}
}

static void count(enum kind kind)
{
	if (kind != counted || atomic_fetch_add(&calls, 1) + 1 != kill_at)
		return;
	for (;;)
		kill(getpid(), SIGKILL);
}

/* The system calls themselves: looking up the C library's functions could allocate. */

int fsync(int fd)
{
	count(SYNC);
	return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	count(SYNC);
	return (int)syscall(SYS_fdatasync, fd);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at)
{
	count(WRITE);
	return (ssize_t)syscall(SYS_pwrite64, fd, data, length, at);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at)
{
	count(WRITE);
	return (ssize_t)syscall(SYS_pwrite64, fd, data, length, at);
}
