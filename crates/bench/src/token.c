/*
 * A provider of security keys (sk-api.h, version 10) whose token is touched after TOUCH_MS
 * milliseconds. Its signatures are no signatures: agents pass them on.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct signature {
	uint8_t flags;
	uint32_t counter;
	uint8_t *r;
	size_t r_len;
	uint8_t *s;
	size_t s_len;
};

uint32_t sk_api_version(void) { return 0x000a0000; }

int sk_enroll(void) { return -2; }

int sk_load_resident_keys(void) { return -2; }

int sk_sign(uint32_t alg, const uint8_t *data, size_t data_len,
    const char *application, const uint8_t *handle, size_t handle_len,
    uint8_t flags, const char *pin, void **options, struct signature **out)
{
	struct timespec wait = { 0, TOUCH_MS * 1000000L };
	(void)alg, (void)data, (void)data_len, (void)application;
	(void)handle, (void)handle_len, (void)pin, (void)options;
	nanosleep(&wait, NULL);
	*out = calloc(1, sizeof(**out));
	if (*out == NULL || ((*out)->r = malloc(64)) == NULL)
		return -1;
	memset((*out)->r, 9, 64);
	(*out)->r_len = 64;
	(*out)->flags = flags;
	(*out)->counter = 1;
	return 0;
}
