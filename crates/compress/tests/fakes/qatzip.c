/*
 * A library with QATzip's API (qatzip.h 2.3) that goes wrong on demand (faults.h), for the tests of
 * those who load one. It does as QATzip does with a device: without sw_backup and with data_fmt RAW, an
 * input of at least input_sz_thrshold bytes becomes raw deflate that ends on a byte, and has BFINAL
 * where `last` is 1 alone. What it makes are stored blocks, or what zlib makes. Also built with
 *
 *   -DDEFLATE      compress by the zlib that it is linked with, as QATzip is
 *   -DBARE         without qzCompressExt
 *   -DSHORT        parameters of an older version, without is_sensitive_mode
 *   -DFOREIGN      parameters that nobody knows
 *   -DNO_FLUSH     end with the data's own stored block, as a device does with what it cannot compress
 *   -DINSTANCES=n  so many inputs at once, and no more
 */
enum { NOWHERE, LOAD, INIT, DEFAULTS, SETUP, COMPRESS, TEARDOWN };

#include "faults.h"

struct session {
    long hw_session_stat;
    int thd_sess_stat;
    void *internal;
    unsigned long total_in, total_out;
};

struct parameters {
    unsigned direction, comp_lvl;
    unsigned char comp_algorithm;
    unsigned max_forks;
    unsigned char sw_backup;
    unsigned hw_buff_sz, strm_buff_sz, input_sz_thrshold, req_cnt_thrshold, wait_cnt_thrshold;
    unsigned polling_mode;
#ifndef SHORT
    unsigned is_sensitive_mode;
#endif
    unsigned huffman_hdr, data_fmt;
#ifdef FOREIGN
    unsigned char unknown;
#endif
};

enum { OK = 0, DUPLICATE = 1, PARAMS = -1, BUF_ERROR = -3, NO_INST = -103, RAW = 3 };

int qzInit(struct session *s, unsigned char sw_backup)
{
    static int done;
    int wrong = fault(INIT);
    if (wrong && wrong != 1)
        return wrong;
    if (sw_backup != 0)
        return PARAMS;
    return done++ ? DUPLICATE : OK;
}

int qzGetDefaultsDeflate(struct parameters *p)
{
    int wrong = fault(DEFAULTS);
    if (wrong && wrong != 1)
        return wrong;
    p->direction = 2;
    p->comp_lvl = 1;
    p->comp_algorithm = 8;
    p->max_forks = 3;
    p->sw_backup = 1;
    p->hw_buff_sz = 64 * 1024;
    p->strm_buff_sz = 64 * 1024;
    p->input_sz_thrshold = 1024;
    p->req_cnt_thrshold = 32;
    p->wait_cnt_thrshold = 8;
    p->polling_mode = 0;
#ifndef SHORT
    p->is_sensitive_mode = 0;
#endif
    p->huffman_hdr = 0;
    p->data_fmt = 2;
#ifdef FOREIGN
    p->unknown = 7;
#endif
    return OK;
}

int qzSetupSessionDeflate(struct session *s, struct parameters *p)
{
    int wrong = fault(SETUP);
    if (wrong && wrong != 1)
        return wrong;
    if (s->internal)
        return DUPLICATE;
    if (p->direction != 0 || p->comp_lvl < 1 || p->comp_lvl > 8 || p->comp_algorithm != 8 ||
        p->sw_backup != 0 || p->hw_buff_sz != 64 * 1024 || p->input_sz_thrshold != 128 ||
        p->huffman_hdr != 0 || p->data_fmt != RAW)
        return PARAMS;
    s->internal = malloc(sizeof *p);
    memcpy(s->internal, p, sizeof *p);
    s->hw_session_stat = wrong ? 11 : OK;
    return OK;
}

int qzTeardownSession(struct session *s)
{
    free(s->internal);
    s->internal = NULL;
    return fault(TEARDOWN);
}

static unsigned char *stored(unsigned char *out, unsigned char first, const void *data, unsigned length)
{
    unsigned char header[5] = { first, length, length >> 8, ~length, ~length >> 8 };
    memcpy(out, header, 5);
    memcpy(out + 5, data, length);
    return out + 5 + length;
}

#ifdef DEFLATE
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
int deflateInit2_(struct stream *, int, int, int, int, int, const char *, int);
int deflate(struct stream *, int);
int deflateEnd(struct stream *);

static unsigned char *deflated(unsigned char *out, unsigned room, const unsigned char *data, unsigned length, int level)
{
    struct stream s = { 0 };
    s.next_in = data;
    s.avail_in = length;
    s.next_out = out;
    s.avail_out = room;
    deflateInit2_(&s, level, 8, -15, 8, 0, "1.2.11", sizeof s);
    deflate(&s, 3); /* Z_FULL_FLUSH */
    deflateEnd(&s);
    return s.next_out;
}
#endif

static int compress(struct session *s, const unsigned char *src, unsigned *src_len, unsigned char *dest,
                    unsigned *dest_len, unsigned last, uint64_t *told)
{
    struct parameters *p = s->internal;
    unsigned char *out = dest;
    unsigned taken = 0, length = *src_len;
    int wrong = fault(COMPRESS);
    if (wrong && wrong != 1)
        return wrong;
    if (!p || last > 1)
        return PARAMS;
    if (length < p->input_sz_thrshold || (wrong && HOW == SOFT))
        *told = 1 << 4;
    if (wrong && HOW == GROW) {
        memset(dest, 0, *dest_len);
        return BUF_ERROR;
    }
    if (wrong && HOW == EMPTY) {
        *dest_len = 0;
        return OK;
    }
    if (wrong && HOW == REST)
        *src_len = --length;
#ifdef DEFLATE
    out = deflated(out, *dest_len, src, length, p->comp_lvl);
#else
    while (taken < length) {
        unsigned most = length - taken > 60000 ? 60000 : length - taken;
        int final = last || (wrong && HOW == FINAL);
        out = stored(out, final && taken + most == length, src + taken, most);
        taken += most;
    }
#ifndef NO_FLUSH
    if (!last)
        out = stored(out, 0, "", 0);
#endif
#endif
    if (wrong && HOW == OPEN) {
        memcpy(out, open_block, sizeof open_block);
        out += sizeof open_block;
    }
    if (wrong && HOW == WRONG)
        dest[7] ^= 0x40;
    if (wrong && HOW == GONE)
        s->hw_session_stat = 13;
    if (wrong && HOW == LESS)
        out -= 3;
    *dest_len = wrong && HOW == MORE ? 0x7fffffff : out - dest;
    s->total_in += *src_len;
    s->total_out += *dest_len;
    return OK;
}

static int call(struct session *s, const unsigned char *src, unsigned *src_len, unsigned char *dest,
                unsigned *dest_len, unsigned last, uint64_t *told)
{
#ifdef INSTANCES
    static int at_work;
    int code = NO_INST;
    if (__sync_fetch_and_add(&at_work, 1) < INSTANCES) {
        usleep(2000);
        s->hw_session_stat = OK;
        code = compress(s, src, src_len, dest, dest_len, last, told);
    } else
        s->hw_session_stat = 13;
    __sync_fetch_and_sub(&at_work, 1);
    return code;
#else
    return compress(s, src, src_len, dest, dest_len, last, told);
#endif
}

int qzCompress(struct session *s, const unsigned char *src, unsigned *src_len, unsigned char *dest,
               unsigned *dest_len, unsigned last)
{
    uint64_t told = 0;
    return call(s, src, src_len, dest, dest_len, last, &told);
}

#ifndef BARE
int qzCompressExt(struct session *s, const unsigned char *src, unsigned *src_len, unsigned char *dest,
                  unsigned *dest_len, unsigned last, uint64_t *ext_rc)
{
    return call(s, src, src_len, dest, dest_len, last, ext_rc);
}
#endif
