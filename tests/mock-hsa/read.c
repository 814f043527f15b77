/* Prints a shared file: a line for each card, `card asked block highest_asked highest_block taken given processes`, over the living processes. */
#include "account.h"

#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: mockhsa-read FILE\n");
        return 2;
    }
    int fd;
    struct account *account = access(arguments[1], F_OK) ? NULL : account_open(arguments[1], &fd);
    if (!account) {
        fprintf(stderr, "mockhsa-read: %s: no shared file of the mock\n", arguments[1]);
        return 2;
    }
    account_lock(account);
    account_sweep(account, arguments[1]);
    for (int card = 0; card < ACCOUNT_CARDS; card++) {
        struct card_bytes total = {0};
        int processes = 0;
        for (uint64_t i = 0; i < account->slots_used; i++) {
            if (!account->slot[i].pid) continue;
            const struct card_bytes *one = &account->slot[i].card[card];
            processes += one->taken > 0;
            total.asked += one->asked;
            total.block += one->block;
            total.taken += one->taken;
            total.given += one->given;
        }
        printf("%d %llu %llu %llu %llu %llu %llu %d\n", card, (unsigned long long)total.asked, (unsigned long long)total.block,
               (unsigned long long)account->highest[card].asked, (unsigned long long)account->highest[card].block, (unsigned long long)total.taken,
               (unsigned long long)total.given, processes);
    }
    account_unlock(account);
    return 0;
}
