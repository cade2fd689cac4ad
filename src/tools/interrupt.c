// SPDX-License-Identifier: MIT
// interrupt.c - Ctrl-C ends a long command with a summary of what it has done, and status 130. So does its own limit (SIGALRM), with 142.
//
// The signal is blocked in all threads but one, which waits for it: so the summary is printed by ordinary code, whatever
// the others are in. They print what belongs together, and count it, between output_hold and output_release.
#include "tools/tool.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;
static struct {
    void (*summary)(void *context);
    void *context;
    sigset_t signals;
} waiting;

void output_hold(void) { pthread_mutex_lock(&output); }
void output_release(void) { pthread_mutex_unlock(&output); }

static void *wait_for_signal(void *context)
{
    int number;
    while (sigwait(&waiting.signals, &number) != 0) {
    }
    output_hold();
    progress_end();
    waiting.summary(waiting.context);
    fflush(stdout);
    _exit(128 + number);
}

// What the caller has set to be ignored stays so: of a job in the background a shell's Ctrl-C means others.
static void add_signal(int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&waiting.signals, number);
}

void on_interrupt(void (*summary)(void *context), void *context)
{
    pthread_t thread;
    waiting.summary = summary;
    waiting.context = context;
    sigemptyset(&waiting.signals);
    add_signal(SIGINT);
    add_signal(SIGTERM);
    add_signal(SIGALRM);
    pthread_sigmask(SIG_BLOCK, &waiting.signals, NULL);
    if (pthread_create(&thread, NULL, wait_for_signal, NULL) == 0) pthread_detach(thread);
    else // without a summary, then
        pthread_sigmask(SIG_UNBLOCK, &waiting.signals, NULL);
}
