// Training loop with a prefetching loader thread.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

struct Prefetcher {
    std::mutex m;
    std::condition_variable ready_cv;
    bool ready = false;
    std::vector<float> batch;

    void load(int epoch) {
        std::vector<float> b(1024, float(epoch));
        std::lock_guard<std::mutex> g(m);
        batch.swap(b);
        ready = true;
        ready_cv.notify_one();
    }

    std::vector<float> next() {
        std::unique_lock<std::mutex> g(m);
        ready = false;                       // forget the previous batch
        ready_cv.wait(g, [this] { return ready; });
        return batch;
    }
};

int main() {
    Prefetcher p;
    for (int epoch = 0; epoch < 3; epoch++) {
        std::thread loader([&] { p.load(epoch); });
        std::this_thread::sleep_for(std::chrono::milliseconds(150));   // set the learning rate
        auto b = p.next();
        loader.join();
        std::printf("epoch %d loss %.3f\n", epoch, std::accumulate(b.begin(), b.end(), 0.f));
    }
}
