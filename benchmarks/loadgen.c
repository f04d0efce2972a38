/* The hot loop of the load generator: one thread, one epoll, ready-made request frames.
 *
 * Every connection has `depth` requests in flight; every answer is compared byte for byte with the one expected and
 * followed by the next request at once. Or, with an interval, every connection sends one request when it is due, late
 * if the answer before is not there yet, and latency counts from when it was due. Of a frame only the correlation id changes, and in commits the offsets, which
 * take the value of the correlation id. Set-up, groups and all figures are Python's business (hotloop.py), which calls
 * run_load() through ctypes; the structures here and there are the same, field by field.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 512, READ = 1 << 17, WRITE = 1 << 16, MAX_DEPTH = 64, KEPT = 256 };
enum { OK = 0, CLOSED = 1, SHORT_WRITE = 2, UNEXPECTED = 3, SILENT = 4, NO_EPOLL = 5 };

struct connection {
    int32_t fd;
    int32_t frame_bytes;
    int32_t first_offset_at;   /* where in the frame the first committed offset is */
    int32_t correlation_id;    /* of the last request sent */
    uint8_t *frame;
    int32_t waiting;           /* requests in flight */
    int32_t partial_bytes;
    int64_t due;               /* when the next request is to be sent, if there is an interval */
    int64_t sent_at[MAX_DEPTH];/* ring, by correlation id */
    uint8_t partial[KEPT * 16];/* the beginning of an answer */
};

struct load {
    struct connection *connections;
    int32_t count;
    int32_t depth;
    int32_t offsets;           /* committed offsets per frame */
    int32_t offset_stride;
    const uint8_t *expected;   /* the answer, with correlation id 0 */
    int32_t expected_bytes;
    int32_t buckets;           /* of the histogram, a microsecond each; the last one takes what is slower */
    uint32_t *histogram;
    int64_t duration_ns;
    int64_t interval_ns;       /* between two requests of a connection; 0: send when answered */
    int64_t limit;             /* stop after so many requests; 0: no limit */
    /* out */
    int64_t answered;          /* before the time was up */
    int64_t took_ns;
    int32_t failed_connection;
    int32_t wrong_bytes;
    uint8_t wrong[KEPT];       /* the beginning of the answer that was not expected */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void put32(uint8_t *at, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(at, &value, 4);
}

static uint32_t get32(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return __builtin_bswap32(value);
}

/* `at` is when their latency begins. */
static int send_requests(const struct load *l, struct connection *c, int n, int64_t at)
{
    static _Thread_local uint8_t out[WRITE];
    size_t bytes = 0;
    for (int i = 0; i < n; i++) {
        uint32_t id = ++c->correlation_id;
        put32(c->frame + 8, id);
        for (int o = 0; o < l->offsets; o++) {
            uint8_t *offset = c->frame + c->first_offset_at + o * l->offset_stride;
            put32(offset, 0);
            put32(offset + 4, id);
        }
        if (bytes + c->frame_bytes > WRITE)
            return SHORT_WRITE;
        memcpy(out + bytes, c->frame, c->frame_bytes);
        bytes += c->frame_bytes;
        c->sent_at[id % MAX_DEPTH] = at;
    }
    c->waiting += n;
    return write(c->fd, out, bytes) == (ssize_t)bytes ? OK : SHORT_WRITE;
}

static int unexpected(struct load *l, const uint8_t *answer, int32_t bytes)
{
    l->wrong_bytes = bytes < KEPT ? bytes : KEPT;
    memcpy(l->wrong, answer, l->wrong_bytes);
    return UNEXPECTED;
}

/* Reads what has arrived and checks every answer; *answers is how many there were. */
static int receive(struct load *l, struct connection *c, int *answers)
{
    static _Thread_local uint8_t in[READ];
    *answers = 0;
    memcpy(in, c->partial, c->partial_bytes);
    ssize_t got = read(c->fd, in + c->partial_bytes, READ - c->partial_bytes);
    if (got < 0 && errno == EAGAIN)
        return OK;
    if (got <= 0)
        return CLOSED;
    int64_t now = now_ns();
    int32_t at = 0, end = c->partial_bytes + got, whole = l->expected_bytes;
    for (; end - at >= 8; at += whole) {
        const uint8_t *answer = in + at;
        if (get32(answer) != (uint32_t)whole - 4)
            return unexpected(l, answer, end - at);
        if (end - at < whole)
            break;
        uint32_t id = c->correlation_id - c->waiting + 1; /* the oldest one in flight */
        if (c->waiting == 0 || get32(answer + 4) != id || memcmp(answer + 8, l->expected + 8, whole - 8) != 0)
            return unexpected(l, answer, whole);
        int64_t us = (now - c->sent_at[id % MAX_DEPTH]) / 1000;
        l->histogram[us < l->buckets ? us : l->buckets - 1]++;
        c->waiting--;
        ++*answers;
    }
    c->partial_bytes = end - at;
    if (c->partial_bytes > (int32_t)sizeof c->partial)
        return unexpected(l, in + at, end - at);
    memcpy(c->partial, in + at, c->partial_bytes);
    return OK;
}

static int drive(struct load *l, int poller)
{
    static _Thread_local struct epoll_event events[EVENTS];
    int64_t start = now_ns(), end = start + l->duration_ns, now = start, sent = 0, waiting = 0;
    for (int i = 0; i < l->count; i++) {
        int failed = send_requests(l, &l->connections[i], l->depth, now_ns());
        if (failed)
            return l->failed_connection = i, failed;
        waiting += l->depth;
    }
    sent = waiting;
    l->answered = l->took_ns = 0;
    while (waiting > 0) {
        int n = epoll_wait(poller, events, EVENTS, 100);
        for (int e = 0; e < n; e++) {
            struct connection *c = &l->connections[events[e].data.u32];
            int answers, failed = receive(l, c, &answers);
            int64_t more = now < end ? answers : 0;
            if (l->limit && more > l->limit - sent)
                more = l->limit - sent;
            if (now < end || l->limit)
                l->answered += answers;
            waiting += more - answers, sent += more;
            if (!failed && more > 0)
                failed = send_requests(l, c, more, now_ns());
            if (failed)
                return l->failed_connection = events[e].data.u32, failed;
        }
        now = now_ns();
        if (!l->took_ns && now >= end)
            l->took_ns = now - start;
        if (now > end + 10000000000LL)
            return SILENT;
    }
    if (!l->took_ns || l->limit)
        l->took_ns = now - start;
    return OK;
}

/* Sends what is due; *waiting is how many connections have a request in flight then. Returns when the next is due. */
static int64_t send_due(struct load *l, int64_t now, int64_t end, int *waiting, int *failed)
{
    int64_t next = end;
    *waiting = 0;
    for (int i = 0; i < l->count && !*failed; i++) {
        struct connection *c = &l->connections[i];
        if (!c->waiting && c->due <= now && c->due < end) {
            if ((*failed = send_requests(l, c, 1, c->due)))
                l->failed_connection = i;
            c->due += l->interval_ns;
        }
        if (c->waiting)
            ++*waiting;
        else if (c->due < next)
            next = c->due;
    }
    return next;
}

static int drive_paced(struct load *l, int poller)
{
    static _Thread_local struct epoll_event events[EVENTS];
    int64_t start = now_ns(), end = start + l->duration_ns, now = start;
    int waiting = 0, failed = OK;
    prctl(PR_SET_TIMERSLACK, 1UL); /* or a request would be sent up to 50 us late */
    for (int i = 0; i < l->count; i++)
        l->connections[i].due = start + l->interval_ns * i / l->count;
    l->answered = 0;
    for (;;) {
        int64_t next = send_due(l, now, end, &waiting, &failed);
        if (failed)
            return failed;
        if (now >= end && !waiting)
            break;
        int64_t pause = now >= end ? 100000000 : next > now ? next - now : 0;
        struct timespec at = {pause / 1000000000LL, pause % 1000000000LL};
        int n = syscall(SYS_epoll_pwait2, poller, events, EVENTS, &at, NULL, 0);
        if (n < 0 && errno != EINTR)
            return NO_EPOLL;
        for (int e = 0; e < n; e++) {
            uint32_t which = events[e].data.u32;
            int answers;
            if ((failed = receive(l, &l->connections[which], &answers)))
                return l->failed_connection = which, failed;
            if (now < end)
                l->answered += answers;
        }
        now = now_ns();
        if (now > end + 10000000000LL)
            return SILENT;
    }
    l->took_ns = l->duration_ns;
    return OK;
}

int run_load(struct load *l)
{
    int poller = epoll_create1(0), outcome = OK;
    if (poller < 0)
        return NO_EPOLL;
    for (int i = 0; i < l->count && outcome == OK; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, l->connections[i].fd, &event) != 0)
            outcome = NO_EPOLL;
    }
    if (outcome == OK)
        outcome = l->interval_ns ? drive_paced(l, poller) : drive(l, poller);
    close(poller);
    return outcome;
}
