// Data loader with a bounded queue and two consumer threads.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

struct Loader {
    std::mutex m;
    std::condition_variable ready;
    std::queue<int> batches;
    bool closed = false;

    void push(int b) {
        { std::lock_guard<std::mutex> g(m); batches.push(b); }
        ready.notify_one();
    }
    void close() {
        std::lock_guard<std::mutex> g(m);
        closed = true;                      // nobody is told
    }
    bool pop(int &b) {
        std::unique_lock<std::mutex> g(m);
        ready.wait(g, [this] { return !batches.empty() || closed; });
        if (batches.empty()) return false;
        b = batches.front();
        batches.pop();
        return true;
    }
};

int main() {
    Loader loader;
    long seen[2] = {0, 0};
    std::vector<std::thread> consumers;
    for (int i = 0; i < 2; i++)
        consumers.emplace_back([&loader, &seen, i] { int b; while (loader.pop(b)) seen[i]++; });
    for (int b = 0; b < 200; b++) {
        loader.push(b);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    loader.close();
    for (auto &t : consumers) t.join();
    std::printf("batches %ld\n", seen[0] + seen[1]);
}
