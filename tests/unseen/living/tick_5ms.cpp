// Works for 5 ms every 2 s, until its time has come.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

int main() {
    using C = std::chrono::steady_clock;
    const char *e = std::getenv("UNSEEN_SECONDS");
    auto next = C::now(), end = next + std::chrono::seconds(e ? std::atoi(e) : 15);
    volatile double x = 0;
    while (next < end) {
        next += std::chrono::seconds(2);
        std::this_thread::sleep_until(next);
        for (auto stop = C::now() + std::chrono::milliseconds(5); C::now() < stop;) x = x + 1;
    }
    std::puts("alive");
}
