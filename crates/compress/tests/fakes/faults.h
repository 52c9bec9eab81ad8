/*
 * Ways to go wrong that all fakes share. A fake has an enum of its places, and then includes this;
 * what it does beyond these is its own. Built with
 *
 *   -DAT=place    where it goes wrong
 *   -DHOW=fault   FAIL, HANG, CRASH, WILD (writes all over its memory), PRY (reaches for what it
 *                 should not have), or a lie of the fake's own
 *   -DCODE=n      what FAIL returns
 *   -DAFTER=n     calls of that function that go right before
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FAIL, HANG, CRASH, WILD, PRY,
    GROW,  /* fills all space */
    LESS,  /* its output is longer than it says */
    MORE,  /* it claims more space than it had */
    REST,  /* leaves input */
    WRONG, /* other bytes */
    FINAL, /* ends the stream */
    EMPTY, /* makes nothing */
    OPEN,  /* ends inside a block, and looks as if it did not */
};

#ifndef AT
#define AT NOWHERE
#endif
#ifndef HOW
#define HOW FAIL
#endif
#ifndef CODE
#define CODE -2
#endif
#ifndef AFTER
#define AFTER 0
#endif

/* What OPEN puts behind an output that ends on a byte: the beginning of a static block, whose end
 * the zeros make that look like a flush. */
static const unsigned char open_block[] = { 0x02, 0, 0, 0xff, 0xff };

static int calls;

static void wild(void)
{
    /* From its own data through everything that is mapped behind it, then around the stack. */
    volatile unsigned char *at = (unsigned char *)&calls;
    unsigned char here;
    for (int i = 0; i < 1 << 16; i++)
        (&here)[i - (1 << 12)] = 0xa5;
    for (;;)
        *at++ = 0x5a;
}

/* Each bit is something that a library of others has no business to reach. */
static int pry(void)
{
    int found = 0;
    pid_t child;
    if (open("/etc/passwd", O_RDONLY) >= 0)
        found |= 1;
    if (open("/tmp/fulmar-provider-was-here", O_WRONLY | O_CREAT, 0600) >= 0)
        found |= 2;
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0)
        found |= 4;
    child = fork();
    if (child == 0)
        _exit(0);
    if (child > 0) {
        waitpid(child, NULL, 0);
        found |= 8;
    }
    if (kill(getppid(), 0) == 0)
        found |= 16;
    if (execl("/bin/true", "true", (char *)0) == 0 || errno == ENOENT)
        found |= 32;
    return found;
}

/* 0 to go on, 1 for a lie of the fake's own, or what the function is to return. */
static int fault(int place)
{
    if (AT != place || __sync_fetch_and_add(&calls, 1) < AFTER)
        return 0;
    switch (HOW) {
    case FAIL:
        return CODE;
    case HANG:
        for (;;)
            pause();
    case CRASH:
        raise(SIGSEGV);
        abort();
    case WILD:
        wild();
        return 0;
    case PRY:
        return -1000 - pry();
    default:
        return 1;
    }
}

__attribute__((constructor)) static void load(void)
{
    if (fault(LOAD))
        _exit(3);
}
