// Bounded sample queue: the consumer thread leaves on a bad sample, the producer waits for room forever.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>

template <class T> class Bounded {
    std::mutex m; std::condition_variable room, avail; std::deque<T> q; size_t cap;
public:
    explicit Bounded(size_t c) : cap(c) {}
    void push(T v) {
        std::unique_lock<std::mutex> l(m);
        room.wait(l, [&] { return q.size() < cap; });
        q.push_back(std::move(v));
        avail.notify_one();
    }
    T pop() {
        std::unique_lock<std::mutex> l(m);
        avail.wait(l, [&] { return !q.empty(); });
        T v = std::move(q.front()); q.pop_front();
        room.notify_one();
        return v;
    }
};

int main() {
    Bounded<int> q(16);
    std::puts("pipeline up"); std::puts("frozen soon"); std::fflush(stdout);
    std::thread consumer([&] {
        try {
            for (;;) { int v = q.pop(); if (v == 1000) throw std::runtime_error("bad sample"); }
        } catch (const std::exception &e) { std::fprintf(stderr, "consumer: %s\n", e.what()); }
    });
    std::thread producer([&] { for (int i = 0; i < 5000; i++) q.push(i); });
    producer.join(); consumer.join();
    std::puts("done");
}
