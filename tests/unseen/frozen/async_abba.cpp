// Two std::async tasks take the weights mutex and the statistics mutex in opposite order.
#include <chrono>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

std::mutex weights_mutex, stats_mutex;
std::vector<double> weights(1000, 1.0);
double stats = 0;

double update(int n) {
    std::lock_guard<std::mutex> a(weights_mutex);
    for (auto &w : weights) w *= 0.99;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::lock_guard<std::mutex> b(stats_mutex);
    return stats += n;
}

double report(int n) {
    std::lock_guard<std::mutex> a(stats_mutex);
    stats += n;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::lock_guard<std::mutex> b(weights_mutex);
    double s = 0;
    for (auto w : weights) s += w;
    return s;
}

int main() {
    std::printf("epoch 0 %f\n", update(1));
    std::fflush(stdout);
    for (int e = 1; e < 20; e++) {
        auto u = std::async(std::launch::async, update, e);
        auto r = std::async(std::launch::async, report, e);
        std::printf("epoch %d %f %f\n", e, u.get(), r.get());
        std::fflush(stdout);
    }
}
