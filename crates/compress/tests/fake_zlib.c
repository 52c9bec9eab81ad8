/*
 * A library with zlib's ABI that goes wrong on demand, for the tests of those who load one. What
 * it makes is right as long as nothing else was asked for: stored blocks. Built with
 *
 *   -DAT=place    where it goes wrong: LOAD, INIT, RESET, DICTIONARY, PARAMS, DEFLATE, END
 *   -DHOW=fault   FAIL, HANG, CRASH, WILD (writes all over its memory), PRY (reaches for what it
 *                 should not have); in DEFLATE also GROW, LESS (lies about its output's length),
 *                 MORE (claims more space than it had), REST (leaves input), WRONG (other bytes),
 *                 FINAL (ends the stream), EMPTY (makes nothing)
 *   -DAFTER=n     calls of that function that go right before
 *   -DBARE        without the functions that not every library has
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

enum { NOWHERE, LOAD, INIT, RESET, DICTIONARY, PARAMS, DEFLATE, END };
enum { FAIL, HANG, CRASH, WILD, PRY, GROW, LESS, MORE, REST, WRONG, FINAL, EMPTY };

#ifndef AT
#define AT NOWHERE
#endif
#ifndef HOW
#define HOW FAIL
#endif
#ifndef AFTER
#define AFTER 0
#endif

struct stream {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state, *zalloc, *zfree, *opaque;
    int data_type;
    unsigned long adler, reserved;
};

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

/* 0 to go on, or what the function is to return. */
static int fault(int place)
{
    if (AT != place || calls++ < AFTER)
        return 0;
    switch (HOW) {
    case FAIL:
        return -2;
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

int deflateInit2_(struct stream *s, int level, int method, int bits, int memory, int strategy,
                  const char *version, int size)
{
    if (size != sizeof *s || version[0] != '1' || bits != -15)
        return -6;
    s->state = malloc(64);
    return fault(INIT);
}

int deflateEnd(struct stream *s)
{
    free(s->state);
    s->state = NULL;
    return fault(END);
}

#ifndef BARE
int deflateReset(struct stream *s)
{
    return fault(RESET);
}

int deflateSetDictionary(struct stream *s, const unsigned char *bytes, unsigned length)
{
    return fault(DICTIONARY);
}

int deflateParams(struct stream *s, int level, int strategy)
{
    return fault(PARAMS);
}

const char *zlibVersion(void)
{
    return "1.2.99-fake";
}
#endif

static void put(struct stream *s, const void *bytes, unsigned length)
{
    if (length > s->avail_out)
        length = s->avail_out;
    memcpy(s->next_out, bytes, length);
    s->next_out += length;
    s->avail_out -= length;
}

static void stored(struct stream *s, unsigned char first, unsigned length)
{
    unsigned char header[5] = { first, length, length >> 8, ~length, ~length >> 8 };
    put(s, header, 5);
    put(s, s->next_in, length);
    s->next_in += length;
    s->avail_in -= length;
}

int deflate(struct stream *s, int flush)
{
    unsigned char *start = s->next_out;
    int wrong = fault(DEFLATE);
    if (wrong && wrong != 1)
        return wrong;
    if (wrong && HOW == EMPTY) {
        s->next_in += s->avail_in;
        s->avail_in = 0;
        return 0;
    }
    if (wrong && HOW == GROW) {
        memset(s->next_out, 0, s->avail_out);
        s->next_out += s->avail_out;
        s->avail_out = 0;
        return 0;
    }
    while (s->avail_in > (wrong && HOW == REST ? 1 : 0)) {
        unsigned most = s->avail_in > 60000 ? 60000 : s->avail_in;
        stored(s, wrong && HOW == FINAL, most - (wrong && HOW == REST ? 1 : 0));
    }
    stored(s, 0, 0);
    if (!wrong)
        return 0;
    if (HOW == LESS)
        s->avail_out += 3;
    if (HOW == MORE)
        s->avail_out = UINT32_MAX;
    if (HOW == WRONG)
        start[7] ^= 0x40;
    return 0;
}
