// Rollouts against a slow remote simulator, one async task each; results are collected in order.
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

static double rollout(int seed, double seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));   // the real-time robot
    return seed * 0.5;
}

int main() {
    const char *s = std::getenv("UNSEEN_SECONDS");
    double seconds = s ? std::stod(s) : 15;
    std::vector<std::future<double>> runs;
    for (int i = 0; i < 3; i++) runs.push_back(std::async(std::launch::async, rollout, i, seconds));
    double total = 0;
    for (auto &r : runs) total += r.get();
    std::cout << (total > 0 ? "alive" : "dead") << std::endl;
}
