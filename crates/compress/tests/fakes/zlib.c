/*
 * A library with zlib's ABI that goes wrong on demand (faults.h), for the tests of those who load one.
 * What it makes is right as long as nothing else was asked for: stored blocks. With -DBARE it has
 * not the functions that not every library has.
 */
enum { NOWHERE, LOAD, INIT, RESET, DICTIONARY, PARAMS, DEFLATE, END };

#include "faults.h"

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
    if (HOW == OPEN)
        put(s, open_block, sizeof open_block);
    return 0;
}
