/** Object.wait(ms) in a loop until the deadline. */
public class WaitMs {
    public static void main(String[] a) throws Exception {
        String e = System.getenv("UNSEEN_SECONDS");
        long ms = (long) (1000 * (e == null ? 15 : Double.parseDouble(e)));
        Object gate = new Object();
        long end = System.nanoTime() + ms * 1_000_000L;
        System.out.println("gate closed");
        synchronized (gate) {
            for (long left; (left = (end - System.nanoTime()) / 1_000_000L) > 0; ) gate.wait(left);
        }
        System.out.println("alive");
    }
}
