// The loader thread notifies before the trainer waits, without a flag: the wake-up is lost, both wait for each other.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

std::mutex m;
std::condition_variable loaded, consumed;
std::vector<double> batch;

void loader() {
    std::unique_lock<std::mutex> l(m);
    for (int i = 0; i < 10; i++) {
        batch.assign(100000, i + 0.5);
        loaded.notify_one();
        consumed.wait(l);
    }
}

int main() {
    std::thread t(loader);
    std::vector<double> w(1000000, 0.25);
    double s = std::accumulate(w.begin(), w.end(), 0.0);
    std::this_thread::sleep_for(std::chrono::milliseconds(800));  // sets up the model
    std::printf("model ready %.1f\n", s);
    std::fflush(stdout);
    for (int i = 0; i < 10; i++) {
        std::unique_lock<std::mutex> l(m);
        loaded.wait(l);
        s += std::accumulate(batch.begin(), batch.end(), 0.0);
        consumed.notify_one();
    }
    t.join();
    std::printf("done %.1f\n", s);
}
