/** Two accounts of GPU quota; transfers in both directions lock in opposite order. */
public class LockOrder {
    static class Quota { int gpus = 100; }
    static void transfer(Quota from, Quota to, long pause) throws InterruptedException {
        synchronized (from) {
            Thread.sleep(pause);
            synchronized (to) { from.gpus--; to.gpus++; }
        }
    }
    public static void main(String[] a) throws Exception {
        Quota x = new Quota(), y = new Quota();
        transfer(x, y, 1); transfer(y, x, 1);
        System.out.println("quota ok");
        System.out.println("frozen soon");
        Thread t = new Thread(() -> { try { transfer(x, y, 1500); } catch (InterruptedException e) {} }, "x-to-y");
        Thread u = new Thread(() -> { try { transfer(y, x, 1500); } catch (InterruptedException e) {} }, "y-to-x");
        t.start(); u.start(); t.join(); u.join();
        System.out.println("done");
    }
}
