// A write-behind cache: the flusher wakes up by the clock, main joins it.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>

using Clock = std::chrono::steady_clock;

class Cache {
    std::mutex m;
    std::condition_variable cv;
    bool closing = false;
    std::map<std::string, int> dirty{{"a", 1}, {"b", 2}};

public:
    size_t flushAt(Clock::time_point when) {
        std::unique_lock<std::mutex> g(m);
        cv.wait_until(g, when, [this] { return closing; });
        size_t n = dirty.size();
        dirty.clear();
        return n;
    }
};

int main() {
    const char *s = std::getenv("UNSEEN_SECONDS");
    double seconds = s ? std::atof(s) : 15.0;
    Cache cache;
    size_t flushed = 0;
    auto when = Clock::now() + std::chrono::milliseconds(long(seconds * 1000));
    std::thread flusher([&] { flushed = cache.flushAt(when); });
    flusher.join();
    if (flushed != 2) return 1;
    std::cout << "alive" << std::endl;
}
