/* The clocks of a server process, read from shared memory: 8 bytes, microseconds since the epoch; 0: the real clocks.
 *
 * Valkey derives its wall clock from the monotonic clock, so both are replaced. Built by valkey.py, loaded with
 * LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *shared;

__attribute__((constructor)) static void map_clock(void) {
  const char *path = getenv("SIMULATION_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *mapped = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) shared = mapped;
}

static int64_t virtual_us(void) { return shared ? *shared : 0; }

int clock_gettime(clockid_t id, struct timespec *time) {
  static int (*real)(clockid_t, struct timespec *);
  int64_t us = virtual_us();
  int replaced = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE;
  if (us && replaced) {
    time->tv_sec = us / 1000000;
    time->tv_nsec = us % 1000000 * 1000;
    return 0;
  }
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  return real(id, time);
}

int gettimeofday(struct timeval *time, void *zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}
