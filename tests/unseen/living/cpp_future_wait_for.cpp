// waits on a future of an async task which itself waits on a condition variable with a deadline
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
int main() {
    const char *e = std::getenv("UNSEEN_SECONDS"); double s = e ? std::atof(e) : 15;
    std::puts("compiling kernels"); std::fflush(stdout);
    auto f = std::async(std::launch::async, [s] {
        std::mutex m; std::condition_variable cv; std::unique_lock<std::mutex> l(m);
        auto end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(s));
        return cv.wait_until(l, end, [] { return false; });
    });
    if (f.get()) return 1;
    std::puts("alive");
}
