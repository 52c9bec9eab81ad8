/*
 * A provider for tests, with the interface of sk-api.h, version 10. It makes no cryptography: a
 * signature is 64 bytes that report what the process was able to do.
 *
 * WAIT_FOR: a path; a key whose handle begins with "wait" signs when it exists.
 * PROBE: a path in a directory where files can be made.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct enrolled {
	uint8_t flags;
	uint8_t *public_key;
	size_t public_key_len;
	uint8_t *handle;
	size_t handle_len;
	uint8_t *signature;
	size_t signature_len;
	uint8_t *certificate;
	size_t certificate_len;
	uint8_t *authdata;
	size_t authdata_len;
};

struct signature {
	uint8_t flags;
	uint32_t counter;
	uint8_t *r;
	size_t r_len;
	uint8_t *s;
	size_t s_len;
};

struct resident {
	uint32_t alg;
	size_t slot;
	char *application;
	struct enrolled key;
	uint8_t flags;
	uint8_t *user;
	size_t user_len;
};

struct option {
	char *name;
	char *value;
	uint8_t required;
};

uint32_t sk_api_version(void) { return 0x000a0000; }

static uint8_t *copy(const void *from, size_t len, size_t *out_len)
{
	uint8_t *to = malloc(len + 1);
	memcpy(to, from, len);
	*out_len = len;
	return to;
}

static void fill(struct enrolled *key, const char *handle, const char *note)
{
	uint8_t point[32];
	memset(point, 7, sizeof(point));
	key->public_key = copy(point, sizeof(point), &key->public_key_len);
	key->handle = copy(handle, strlen(handle), &key->handle_len);
	key->certificate = copy("cert", 4, &key->certificate_len);
	key->signature = copy(note, strlen(note), &key->signature_len);
	key->authdata = copy("data", 4, &key->authdata_len);
}

static int wrong(const char *pin) { return pin == NULL || strcmp(pin, "1234") != 0; }

int sk_enroll(uint32_t alg, const uint8_t *challenge, size_t challenge_len,
    const char *application, uint8_t flags, const char *pin,
    struct option **options, struct enrolled **out)
{
	char note[64] = "";
	(void)challenge;
	if (alg != 1)
		return -2;
	if ((flags & 4) && wrong(pin))
		return -3;
	if ((flags & 0x20) && !(flags & 0x10) && !strcmp(application, "ssh:there"))
		return -5;
	for (; *options; options++) {
		strcat(note, (*options)->name);
		strcat(note, "=");
		strcat(note, (*options)->value);
		strcat(note, ";");
	}
	if (challenge_len != 32)
		strcat(note, "long");
	*out = calloc(1, sizeof(**out));
	(*out)->flags = flags;
	fill(*out, application + 4, note);
	return 0;
}

static uint8_t result(long value) { return value < 0 ? errno : 0; }

static void probe(uint8_t *r)
{
	char *const none[] = { NULL };
	r[0] = result(open(PROBE, O_CREAT | O_WRONLY, 0600));
	r[1] = result(open("/etc/passwd", O_RDONLY));
	r[2] = result(socket(AF_INET, SOCK_STREAM, 0));
	r[3] = result(socket(AF_UNIX, SOCK_STREAM, 0));
	r[4] = result(execve("/bin/true", none, none));
	r[5] = result(kill(getppid(), 0));
	r[6] = result(fork());
	if (r[6] == 0 && getpid() == 1)
		_exit(0);
	/* NETLINK_KOBJECT_UEVENT */
	r[7] = result(socket(AF_NETLINK, SOCK_RAW, 15));
	/* NETLINK_ROUTE */
	r[8] = result(socket(AF_NETLINK, SOCK_RAW, 0));
	r[9] = result(ioctl(2, TIOCSTI, "x"));
	r[10] = result(read(2, r + 63, 1));
	r[11] = result(open("/dev/tty", O_RDWR)) != 0;
	r[12] = getenv("FIDO_TEST") != NULL && getenv("OTHER_TEST") == NULL;
}

int sk_sign(uint32_t alg, const uint8_t *data, size_t data_len,
    const char *application, const uint8_t *handle, size_t handle_len,
    uint8_t flags, const char *pin, struct option **options,
    struct signature **out)
{
	uint8_t r[64];
	(void)alg, (void)data, (void)data_len, (void)application, (void)options;
	if ((flags & 4) && wrong(pin))
		return -3;
	memset(r, 9, sizeof(r));
	if (handle_len >= 4 && !memcmp(handle, "wait", 4)) {
		struct timespec pause = { 0, 5000000 };
		while (access(WAIT_FOR, F_OK) != 0) {
			if (handle_len > 8 && !memcmp(handle, "wait and", 8) &&
			    write(2, "waiting\n", 8) < 0)
				return -1;
			nanosleep(&pause, NULL);
		}
	}
	if (handle_len >= 4 && !memcmp(handle, "says", 4)) {
		static const char text[] = "touch\033[2J it\nnow";
		if (write(2, text, sizeof(text) - 1) < 0)
			return -1;
	}
	if (handle_len >= 4 && !memcmp(handle, "gone", 4))
		return -4;
	if (handle_len >= 4 && !memcmp(handle, "dies", 4))
		abort();
	if (handle_len >= 5 && !memcmp(handle, "probe", 5))
		probe(r);
	*out = calloc(1, sizeof(**out));
	(*out)->flags = flags;
	(*out)->counter = 7;
	(*out)->r = copy(r, sizeof(r), &(*out)->r_len);
	return 0;
}

int sk_load_resident_keys(const char *pin, struct option **options,
    struct resident ***out, size_t *count)
{
	static const char *applications[] = { "ssh:", "ssh:work", "https://web" };
	char user[32] = "bob";
	(void)options;
	if (wrong(pin))
		return -3;
	*out = calloc(3, sizeof(**out));
	for (*count = 0; *count < 3; (*count)++) {
		struct resident *key = calloc(1, sizeof(*key));
		key->alg = 1;
		key->application = strdup(applications[*count]);
		key->flags = 0x21;
		fill(&key->key, applications[*count], "");
		if (*count == 1)
			key->user = copy(user, sizeof(user), &key->user_len);
		(*out)[*count] = key;
	}
	return 0;
}
